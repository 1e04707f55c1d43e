"""How fast lanes fill and empty."""

from tests.unit.broker.queue_world import Bench, play, with_priority


def test_lanes_tell_how_fast_they_fill_and_empty():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *(with_priority(b"old", "low") for _ in range(1000)))
        await bench.ack(await bench.receive(max_messages=1))
        await bench.sleep(2)  # an old backlog is no news
        (stats,) = await bench.queues.stats("workers")
        assert [lane.published_a_second for lane in stats.partitions[0].lanes] == [0.0] * 5
        for _ in range(60):
            await bench.publish("jobs", *(with_priority(b"new", "high") for _ in range(6)), b"x")
            await bench.ack(await bench.receive(max_messages=3))
            await bench.sleep(1)
        (stats,) = await bench.queues.stats("workers")
        lanes = {lane.priority: lane for lane in stats.partitions[0].lanes}
        assert round(lanes["high"].published_a_second) == 6
        assert round(lanes["normal"].published_a_second) == 1
        assert lanes["low"].published_a_second == 0
        assert 2 < sum(lane.delivered_a_second for lane in lanes.values()) < 4
        await bench.sleep(200)
        (stats,) = await bench.queues.stats("workers")
        assert all(lane.published_a_second < 0.01 for lane in stats.partitions[0].lanes)

    play(scenario)
