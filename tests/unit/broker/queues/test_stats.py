"""What a queue tells about itself, and that looking changes nothing."""

from goqueue.broker.queues.stats import WhichInFlight
from goqueue.queue import (
    QueueSettings,
)
from tests.unit.broker.queue_world import Bench, numbered, play


def test_peeking_and_asking_who_holds_what_change_nothing():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        peeked = await bench.peek(3)
        assert [each.record.value for each in peeked] == numbered(3)
        held = await bench.receive(max_messages=2, visibility_ms=7_000)
        listed = bench.queues.in_flight("workers")
        assert [(each.offset, each.consumer) for each in listed] == [(0, "ann"), (1, "ann")]
        assert [each.receipt for each in listed] == [each.receipt for each in held]
        assert [each.record.value for each in await bench.peek(9)] == numbered(3, 2)
        bobs = WhichInFlight(consumer="bob")
        assert bench.queues.in_flight("workers", which=bobs) == []
        (stats,) = await bench.queues.stats("workers")
        (partition,) = stats.partitions
        assert (partition.ready, partition.in_flight, partition.end) == (3, 2, 5)
        assert stats.consumers == {"ann": 2}

    play(scenario)


def test_who_peeks_leaves_no_trace():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        await bench.queues.configure("others", QueueSettings(start="latest"))
        seen = await bench.peek(10, "strangers")
        assert [each.record.value for each in seen] == numbered(3)
        assert await bench.peek(10, "others") == []
        groups = bench.queues.groups
        assert "strangers" not in groups
        assert "others" not in groups
        assert await bench.broker.queue_groups.list_groups() == ()

    play(scenario, partitions=2)
