"""Compressed batches are searched for delays: all of topics that have some, others by a budget."""

import pytest

from goqueue.broker import Broker
from goqueue.broker.delays.header_search import SAVED_NS_MAX, SHARE, TimeBudget
from goqueue.model import batch as batches
from goqueue.model.compression import Codec
from goqueue.model.ids import Instant
from goqueue.model.record import Record
from tests.unit.broker.delays.delay_world import TOPIC, Bench, delayed, play

LATE = (("gq-delay-ms", b"1000"),)


async def finds(broker: Broker, *headers: tuple[tuple[str, bytes], ...], codec: int) -> bool:
    records = [Record(0, 0, None, b"x" * 100, each) for each in headers]
    partition = await broker.partition(TOPIC, 0)
    return await broker.delays.appends.search.finds(partition, batches.encode(records, codec=codec))


def use_up_the_budget(broker: Broker) -> None:
    broker.delays.appends.search._budget.spend(2 * SAVED_NS_MAX)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_headers_are_found_in_every_codec(codec: Codec):
    async def story(bench: Bench) -> None:
        assert await finds(bench.broker, (), LATE, codec=codec)
        assert not await finds(bench.broker, (), (), codec=codec)

    play(story)


def test_a_topic_without_delays_is_searched_as_long_as_there_is_time_for_it():
    async def story(bench: Bench) -> None:
        use_up_the_budget(bench.broker)
        assert not await finds(bench.broker, LATE, codec=Codec.LZ4)
        assert bench.broker.delays.appends.search.skipped == 1
        await bench.sleep(60)
        assert await finds(bench.broker, LATE, codec=Codec.LZ4)

    play(story)


def test_a_topic_with_delays_is_always_searched():
    async def story(bench: Bench) -> None:
        await bench.publish(TOPIC, delayed(b"one", 60_000))
        use_up_the_budget(bench.broker)
        assert await finds(bench.broker, LATE, codec=Codec.LZ4)
        await bench.broker.delete_topic(TOPIC)
        await bench.broker.create_topic(TOPIC, partitions=1)
        assert not await finds(bench.broker, LATE, codec=Codec.LZ4)

    play(story)


def test_a_topic_that_asks_for_it_is_always_searched():
    async def story(bench: Bench) -> None:
        await bench.broker.change_settings(TOPIC, {"goqueue.delayed.compressed": "always"})
        use_up_the_budget(bench.broker)
        assert await finds(bench.broker, LATE, codec=Codec.LZ4)

    play(story)


def test_a_budget_grows_with_time_up_to_a_bound():
    budget = TimeBudget(Instant(0))
    budget.spend(SAVED_NS_MAX)
    assert not budget.has_some(Instant(0))
    assert budget.has_some(Instant(1_000_000_000))
    budget.spend(int(SHARE * 1_000_000_000))
    assert not budget.has_some(Instant(1_000_000_000))
    assert budget.has_some(Instant(10**15))
    budget.spend(SAVED_NS_MAX)
    assert not budget.has_some(Instant(10**15))
