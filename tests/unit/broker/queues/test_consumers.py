"""Consumers at work: who is seen, and how many are remembered."""

import asyncio

from goqueue.broker.queues.consumers import CONSUMERS_MAX, Consumers
from goqueue.model.ids import GroupId
from goqueue.queue.lease import LeaseBook
from tests.unit.broker.queue_world import Bench, numbered, play


def test_consumers_at_work_are_seen_although_they_never_joined():
    async def scenario(bench: Bench) -> None:
        async def seen() -> tuple[str, list[str]]:
            (group,) = await bench.broker.queue_groups.list_groups()
            found = await bench.broker.queue_groups.describe(GroupId("workers"))
            assert (group.state, group.member_count) == (found.state, len(found.workers))
            assert all(worker.topics == ("jobs",) for worker in found.workers)
            return group.state, sorted(worker.member_id for worker in found.workers)

        await bench.publish("jobs", *numbered(2))
        (first,) = await bench.receive(consumer="ann", max_messages=1, visibility_ms=100_000)
        assert await bench.receive(consumer="bob")
        waits = asyncio.create_task(bench.receive(consumer="cleo", wait_ms=50_000))
        await bench.sleep(1)
        assert await seen() == ("Stable", ["ann", "bob", "cleo"])
        await bench.queues.remove_consumer("workers", "bob", failed=False)
        assert await seen() == ("Stable", ["ann", "cleo"])
        await bench.ack(await waits)
        await bench.sleep(60)
        assert await seen() == ("Stable", ["ann", "cleo"]), "ann holds one, cleo might have waited"
        await bench.sleep(25)
        assert await seen() == ("Stable", ["ann"])
        await bench.ack([first])
        assert await seen() == ("Empty", [])
        await bench.broker.queue_groups.delete(GroupId("workers"))

    play(scenario)


def test_the_consumers_that_are_remembered_are_bounded():
    consumers = Consumers()
    for number in range(CONSUMERS_MAX + 5):
        consumers.hear(f"{number}", ("jobs",), until=number)
    found = consumers.at_work(LeaseBook(), now=0)
    assert len(found) == CONSUMERS_MAX
    assert "4" not in found
    assert list(consumers.at_work(LeaseBook(), now=CONSUMERS_MAX + 3)) == [f"{CONSUMERS_MAX + 4}"]
