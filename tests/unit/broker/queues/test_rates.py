"""How fast lanes fill and empty."""

import math

import pytest

from goqueue.broker.queues.rates import Rates
from goqueue.queue.lanes import LANES
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


SECOND = 1_000_000_000
NOTHING = [0] * LANES


def test_the_first_look_is_no_rate():
    rates = Rates()
    rates.observe([1_000_000] * LANES, 5 * SECOND)
    assert rates.a_second == [0.0] * LANES


def test_a_rate_is_smoothed_over_ten_seconds_however_often_it_is_looked_at():
    often, seldom = Rates(), Rates()
    for rates in (often, seldom):
        rates.begin(NOTHING, 0)
    for second in range(1, 11):
        often.observe([7 * second] * LANES, second * SECOND)
    seldom.observe([70] * LANES, 10 * SECOND)
    expected = 7 * (1 - math.exp(-1))
    assert often.a_second == pytest.approx([expected] * LANES)
    assert seldom.a_second == pytest.approx([expected] * LANES)


def test_two_looks_in_one_moment_count_as_one():
    rates = Rates()
    rates.begin(NOTHING, 0)
    rates.observe([10] * LANES, SECOND)
    before = list(rates.a_second)
    rates.observe([10] * LANES, SECOND)
    assert rates.a_second == before


def test_what_was_before_the_beginning_is_not_counted():
    rates = Rates()
    rates.begin([500] * LANES, SECOND)
    rates.observe([500] * LANES, 2 * SECOND)
    assert rates.a_second == [0.0] * LANES
