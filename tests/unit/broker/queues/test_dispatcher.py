"""In which order messages are handed out: priorities, keys, fairness."""

import asyncio
import random
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Awaitable

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.errors import ShuttingDown
from goqueue.queue import Delivered, QueueSettings
from goqueue.queue.lanes import NAMES, WEIGHTS
from tests import queue_verbs
from tests.unit.broker.queue_world import Bench, numbered, play, values, with_priority


def test_lanes_have_their_shares_under_backlog_and_nothing_is_skipped():
    async def scenario(bench: Bench) -> None:
        chance = random.Random(3)
        sent = []
        for start in range(0, 6_000, 500):
            some = [
                with_priority(b"%d" % n, chance.choice(NAMES)) for n in range(start, start + 500)
            ]
            sent += some
            await bench.publish("jobs", *some)
        seen: list[bytes] = []
        first: list[str] = []
        while delivered := await bench.receive(max_messages=chance.choice([1, 10, 300])):
            seen += values(delivered)
            if len(first) < 2_000:
                first += [each.priority for each in delivered]
            await bench.ack(delivered)
        assert sorted(seen) == sorted(message.value or b"" for message in sent)
        for name, weight in zip(NAMES, WEIGHTS, strict=True):
            assert abs(100 * first[:2_000].count(name) / 2_000 - weight) < 2

    play(scenario, partitions=2)


def test_a_burst_of_critical_messages_overtakes_a_backlog_at_once():
    async def scenario(bench: Bench) -> None:
        for _ in range(20):
            await bench.publish("jobs", *(with_priority(b"slow", "low") for _ in range(500)))
        await bench.ack(await bench.receive(max_messages=100))
        await bench.publish("jobs", *(with_priority(b"now", "critical") for _ in range(40)))
        await bench.publish("jobs", *numbered(5))
        got = values(await bench.receive(max_messages=60))
        assert got[:40] == [b"now"] * 40
        assert set(numbered(5)) <= set(got)

    play(scenario)


def test_a_retry_keeps_its_priority():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", with_priority(b"urgent", "critical"), *numbered(100))
        (urgent,) = await bench.receive(max_messages=1)
        await queue_verbs.nack(bench.queues, [urgent.receipt], delay_ms=0)
        (again,) = await bench.receive(max_messages=1)
        assert (again.record.value, again.priority, again.attempt) == (b"urgent", "critical", 2)

    play(scenario, settings=QueueSettings(priority="strict"))


def test_strict_priority_never_serves_a_lower_lane_first():
    async def scenario(bench: Bench) -> None:
        for n in range(100):
            await bench.publish("jobs", *(with_priority(b"%d" % n, name) for name in NAMES[::-1]))
        seen = []
        while delivered := await bench.receive(max_messages=33):
            seen += [each.lane for each in delivered]
            await bench.ack(delivered)
        assert seen == sorted(seen)
        assert len(seen) == 500

    play(scenario, settings=QueueSettings(priority="strict"))


@pytest.mark.parametrize("names", [set(NAMES), {"critical", "background"}, {"high", "low"}])
def test_no_lane_waits_longer_than_the_starvation_time_whatever_is_there(names):
    async def scenario(bench: Bench) -> None:
        for name in sorted(names):
            count = 400 if name in ("critical", "high") else 4
            await bench.publish("jobs", *(with_priority(name.encode(), name) for _ in range(count)))
        left = Counts({name: 400 if name in ("critical", "high") else 4 for name in names})
        waited = dict.fromkeys(names, 0.0)
        while left.total() > 300:
            await bench.peek(3)  # whoever looks does not take a turn
            delivered = await bench.receive(max_messages=10)
            served = Counts(each.priority for each in delivered)
            left -= served
            await bench.ack(delivered)
            await bench.sleep(0.5)
            for name in waited:
                waited[name] = 0.0 if served[name] or not left[name] else waited[name] + 0.5
            assert max(waited.values()) < 2, waited

    play(scenario, settings=QueueSettings(priority="strict", starvation_ms=1_000))


def test_priorities_in_compressed_batches_count_too():
    async def scenario(bench: Bench) -> None:
        await bench.broker.change_settings("jobs", {"compression.type": "zstd"})
        await bench.publish("jobs", *numbered(50), with_priority(b"now", "0"))
        assert (await bench.receive(max_messages=1))[0].record.value == b"now"
        assert await bench.drain() == numbered(50)

    play(scenario)


def test_keys_keep_their_order_whatever_fails():
    """64 workers, many keys, random nacks: one message of a key at a time, in order."""

    async def scenario(bench: Bench) -> None:
        chance = random.Random(7)
        keys = [b"key-%d" % n for n in range(300)]
        counts: Counts[bytes] = Counts()
        for _ in range(10):
            some = []
            for _ in range(200):
                key = chance.choice(keys)
                some.append(OutgoingMessage(b"%d" % counts[key], key=key))
                counts[key] += 1
            await bench.publish("jobs", *some)
        done: dict[bytes, list[int]] = defaultdict(list)
        busy: set[bytes] = set()
        left = 2_000

        async def work(name: str) -> None:
            nonlocal left
            while left:
                some = await bench.receive(consumer=name, max_messages=5, wait_ms=100_000)
                for each in some:
                    key, value = each.record.key or b"", int(each.record.value or b"")
                    assert key not in busy, "two of one key at a time"
                    assert value == len(done[key]), "out of order"
                    busy.add(key)
                await bench.sleep(chance.uniform(0, 0.01))
                for each in some:
                    busy.discard(each.record.key or b"")
                    if chance.random() < 0.1:
                        await queue_verbs.nack(
                            bench.queues, [each.receipt], delay_ms=chance.choice([0, 20])
                        )
                        continue
                    done[each.record.key or b""].append(int(each.record.value or b""))
                    left -= 1
                    await bench.ack([each])
                if not left:
                    bench.queues.stop()

        async with asyncio.TaskGroup() as tasks:
            for number in range(64):
                tasks.create_task(_until_stopped(work(f"w{number}")))
        assert {key: len(some) for key, some in done.items()} == dict(counts)

    play(scenario, partitions=3, settings=QueueSettings(ordering="key", max_failures=1000))


def test_a_failing_key_blocks_only_itself():
    async def scenario(bench: Bench) -> None:
        stuck = [OutgoingMessage(b"stuck %d" % n, key=b"stuck") for n in range(50)]
        free = [OutgoingMessage(b"%d" % n, key=b"%d" % n) for n in range(50)]
        for pair in zip(stuck, free, strict=True):
            await bench.publish("jobs", *pair)
        some = await bench.receive(max_messages=100)
        assert values(some) == [b"stuck 0", *numbered(50)]
        await queue_verbs.nack(bench.queues, [some[0].receipt])
        await bench.ack(some[1:])
        assert await bench.receive(max_messages=100) == []
        (again,) = await bench.receive(wait_ms=5_000)
        assert (again.record.value, again.attempt) == (b"stuck 0", 2)
        await queue_verbs.reject(bench.queues, [again.receipt], reason="no")
        for n in range(1, 50):
            (each,) = await bench.receive(max_messages=100)
            assert each.record.value == b"stuck %d" % n
            await bench.ack([each])

    play(scenario, settings=QueueSettings(ordering="key"))


def test_the_key_of_the_order_may_be_a_header_and_the_window_is_bounded():
    async def scenario(bench: Bench) -> None:
        same = [
            OutgoingMessage(b"%d" % n, key=b"%d" % n, headers=(("gq-ordering-key", b"x"),))
            for n in range(20)
        ]
        await bench.publish("jobs", *same, OutgoingMessage(b"free", key=b"free"))
        (first,) = await bench.receive(max_messages=100)
        state = next(iter(bench.queues.groups[first.group_id].states.values()))
        assert state.deferred_count == 10
        await bench.ack([first])
        seen = [first.record.value]
        while some := await bench.receive(max_messages=100):
            seen += values(some)
            await bench.ack(some)
        assert [value for value in seen if value != b"free"] == numbered(20)
        assert b"free" in seen

    play(scenario, settings=QueueSettings(ordering="key", key_window=10))


def test_a_noisy_tenant_does_not_starve_the_quiet_ones():
    async def scenario(bench: Bench) -> None:
        noisy = [OutgoingMessage(b"noisy", headers=(("tenant", b"n"),)) for _ in range(800)]
        await bench.publish("jobs", *noisy)
        for tenant in (b"a", b"b", b"c"):
            headers = (("tenant", tenant),)
            await bench.publish("jobs", *(OutgoingMessage(tenant, headers=headers),) * 10)
        first = await bench.receive(max_messages=40)
        counts = Counts(values(first))
        assert counts == {b"noisy": 10, b"a": 10, b"b": 10, b"c": 10}
        await queue_verbs.nack(bench.queues, [first[0].receipt], delay_ms=0)
        await bench.ack(first[1:])
        seen = []
        while some := await bench.receive(max_messages=1):
            seen += values(some)
            await bench.ack(some)
        assert seen == [b"noisy"] * 791

    play(scenario, settings=QueueSettings(fairness="tenant"))


def test_tenants_take_turns_one_message_at_a_time():
    async def scenario(bench: Bench) -> None:
        for tenant in (b"a", b"b", b"c"):
            headers = (("tenant", tenant),)
            await bench.publish("jobs", *(OutgoingMessage(tenant, headers=headers),) * 5)
        seen = []
        while some := await bench.receive(max_messages=1):
            seen += values(some)
            await bench.ack(some)
        assert all(sorted(seen[n : n + 3]) == [b"a", b"b", b"c"] for n in range(0, 15, 3))

    play(scenario, settings=QueueSettings(fairness="tenant"))


def test_keys_keep_their_order_when_tenants_take_turns():
    async def scenario(bench: Bench) -> None:
        chance = random.Random(11)
        counts: Counts[bytes] = Counts()
        for _ in range(6):
            some = []
            for _ in range(150):
                key = b"key-%d" % chance.choice([0, 0, 0, *range(30)])
                headers = (("tenant", b"%d" % chance.randrange(4)),)
                some.append(OutgoingMessage(b"%d" % counts[key], key=key, headers=headers))
                counts[key] += 1
            await bench.publish("jobs", *some)
        done: Counts[bytes] = Counts()
        held: list[Delivered] = []
        while done.total() < 900:
            held += await bench.receive(consumer="ann", max_messages=chance.choice([1, 3, 20]))
            keys = Counts(each.record.key for each in held)
            assert set(keys.values()) <= {1}, "two of one key at a time"
            assert held
            each = held.pop(chance.randrange(len(held)))
            key = each.record.key or b""
            assert int(each.record.value or b"") == done[key], "out of order"
            if chance.random() < 0.2:
                await queue_verbs.nack(bench.queues, [each.receipt], delay_ms=0)
            else:
                await bench.ack([each])
                done[key] += 1
        assert done == counts

    settings = QueueSettings(
        ordering="key", fairness="tenant", fairness_window=50, key_window=200, max_failures=99
    )
    play(scenario, settings=settings)


def test_a_busy_key_that_fills_the_window_keeps_nobody_waiting():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *(OutgoingMessage(b"%d" % n, key=b"k") for n in range(100)))
        await bench.publish("jobs", b"other")
        held = await bench.receive(max_messages=10)
        assert values(held) == [b"0", b"other"]
        await bench.ack(held)
        assert await bench.drain() == numbered(99, 1)

    play(scenario, settings=QueueSettings(ordering="key", fairness="tenant", fairness_window=10))


async def _until_stopped(work: Awaitable[None]) -> None:
    try:
        await work
    except ShuttingDown:
        return
