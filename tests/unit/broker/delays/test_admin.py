"""Look up, list, cancel, reschedule and count."""

import pytest

from goqueue.broker.delays.admin import FIRST, Missing, place_of
from goqueue.delay.errors import DelayedMessageFinished, DelayedMessageNotFound
from goqueue.model.errors import InvalidRequest, PartitionNotFound
from goqueue.model.ids import Timestamp
from tests.unit.broker.delays.delay_world import TOPIC, Bench, delayed, play, values, waiting


def test_cancel_means_never():
    async def story(bench: Bench) -> None:
        admin = bench.broker.delays.admin
        await bench.publish(TOPIC, delayed(b"a", 1000), delayed(b"b", 1000))
        found = await admin.cancel(TOPIC, 0, 0)
        assert (found.state, found.value) == ("cancelled", b"a")
        await bench.sleep(5)
        assert await values(bench.broker) == [b"b"]
        with pytest.raises(DelayedMessageFinished, match="cancelled already"):
            await admin.cancel(TOPIC, 0, 0)
        with pytest.raises(DelayedMessageFinished, match="delivered already"):
            await admin.cancel(TOPIC, 0, 1)
        with pytest.raises(DelayedMessageNotFound, match="never there"):
            await admin.find(TOPIC, 0, 2)
        with pytest.raises(PartitionNotFound):
            await admin.find(TOPIC, 9, 0)

    play(story)


def test_reschedule_moves_both_ways():
    async def story(bench: Bench) -> None:
        admin, clock = bench.broker.delays.admin, bench.broker.environment.clock
        await bench.publish(TOPIC, delayed(b"a", 1000), delayed(b"b", 9_000_000))
        await admin.reschedule(TOPIC, 0, 0, Timestamp(clock.now() + 60_000))
        await admin.reschedule(TOPIC, 0, 1, Timestamp(0))
        await bench.sleep(2)
        assert await values(bench.broker) == [b"b"]
        await bench.sleep(60)
        assert await values(bench.broker) == [b"b", b"a"]
        with pytest.raises(InvalidRequest, match="9999"):
            await admin.reschedule(TOPIC, 0, 0, Timestamp(2**60))

    play(story)


def test_the_same_offset_in_two_partitions_is_two_messages():
    async def story(bench: Bench) -> None:
        admin = bench.broker.delays.admin
        await bench.publish(
            TOPIC, delayed(b"a", 1000, partition=0), delayed(b"b", 1000, partition=1)
        )
        await admin.cancel(TOPIC, 1, 0)
        await bench.sleep(2)
        assert [await values(bench.broker, each) for each in (0, 1)] == [[b"a"], []]

    play(story, partitions=2)


def test_pages_go_through_all_partitions_by_time():
    async def story(bench: Bench) -> None:
        admin = bench.broker.delays.admin
        late = [delayed(b"x", 60_000 + n // 4, partition=n % 3) for n in range(40)]
        await bench.publish(TOPIC, *late)
        found, after = [], FIRST
        while page := await admin.page(TOPIC, after=after, limit=7, missing=Missing()):
            found += page
            after = place_of(page[-1])
        assert found == sorted(await waiting(bench.broker), key=place_of)
        assert len({(each.partition, each.offset) for each in found}) == 40

    play(story, partitions=3)


def test_counts_are_by_topic():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"a", 10), delayed(b"b", 60_000), delayed(b"c", 60_000))
        await bench.sleep(1)
        await bench.broker.delays.admin.cancel(TOPIC, 0, 1)
        counts, missing = await bench.broker.delays.admin.counts()
        assert not missing
        found = counts[TOPIC]
        figures = (found.pending, found.scheduled, found.delivered, found.cancelled)
        assert figures == (1, 3, 1, 1)

    play(story)
