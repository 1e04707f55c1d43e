"""How long messages took, counted in the background."""

from goqueue.broker.traces import latencies as module
from goqueue.trace.events import Step
from tests.unit.broker.traces.trace_world import TOPIC, Bench, ask_as, play
from tests.unit.trace.trace_events import event


def counts(bench: Bench) -> dict[str, int]:
    latencies = bench.broker.latency_counter.latencies
    tables = {
        "publish": latencies.publish,
        "first_delivery": latencies.first_delivery,
        "ack": latencies.ack,
        "end_to_end": latencies.end_to_end,
    }
    return {
        name: sum(sum(each.counts) for each in table.table.values())
        for name, table in tables.items()
    }


def test_what_a_queue_does_is_counted():
    async def main(bench: Bench) -> None:
        ask_as("shop")
        await bench.publish(TOPIC, b"a", b"b", b"c")
        messages = await bench.receive(max_messages=3)
        await bench.ack(messages[:1])
        await bench.sleep(2)
        assert counts(bench) == {"publish": 3, "first_delivery": 3, "ack": 1, "end_to_end": 1}
        partition = await bench.broker.partition(TOPIC, 0)
        assert partition.topic_id is not None
        latencies = bench.broker.latency_counter.latencies
        assert latencies.published_us(partition.topic_id.bytes, 0, 2) is not None
        assert set(latencies.end_to_end.table) == {(TOPIC, "workers")}

    play(main)


def test_series_of_a_deleted_topic_end():
    async def main(bench: Bench) -> None:
        ask_as("shop")
        await bench.publish(TOPIC, b"a")
        await bench.sleep(2)
        assert bench.broker.latency_counter.latencies.topics == {TOPIC}
        await bench.broker.delete_topic(TOPIC)
        await bench.broker.create_topic("other", partitions=1)
        for _ in range(3):  # it is looked at now and then, when there is something to count
            await bench.sleep(module.FORGET_SECONDS)
            await bench.publish("other", b"a")
        await bench.sleep(2)
        assert bench.broker.latency_counter.latencies.topics == {"other"}

    play(main)


def test_events_that_come_too_fast_are_dropped_and_counted():
    async def main(bench: Bench) -> None:
        counter = bench.broker.latency_counter
        counter.take([event(1, Step.GROUP_REBALANCED)] * (module.KEPT_EVENTS_MAX + 3))
        assert counter.dropped_total == 3
        await counter.count()
        counter.take([event(1, Step.GROUP_REBALANCED)])
        assert counter.dropped_total == 3

    play(main)
