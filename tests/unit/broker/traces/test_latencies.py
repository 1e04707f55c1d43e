"""How long messages took, counted in the background."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from goqueue.broker.traces import latencies as module
from goqueue.trace.events import Step
from tests.unit.broker.traces.trace_world import TOPIC, Bench, ask_as, play
from tests.unit.trace.trace_events import ORDERS, event


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


class TwoNodes:
    """Node 1, and node 2 that leads all partitions."""

    node_id = 1

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []  # to whom, and the offset
        self.metadata = self
        self.others = self

    def find(self, _: str) -> Any:
        return SimpleNamespace(topic_id=SimpleNamespace(bytes=ORDERS))

    def leader(self, *_: object) -> int:
        return 2

    async def ask(self, leader: int, verb: module.StepsElsewhere) -> bool:
        self.sent += [(leader, each.first) for each in verb.events]
        return True


def test_a_leader_gets_what_others_saw_after_it_had_time_to_count_its_own():
    async def main(bench: Bench) -> None:
        nodes = TwoNodes()
        counter = module.LatencyCounter(cast(Any, nodes), bench.broker.environment.clock)
        sending = asyncio.ensure_future(counter.run_sending())
        counter.take([event(1, Step.ACKED, 5), event(1, Step.PUBLISHED, 6)])
        await counter.count()
        await bench.sleep(module.SEND_SECONDS * 1.5)
        assert nodes.sent == []
        await bench.sleep(module.SEND_SECONDS)
        assert nodes.sent == [(2, 5)]  # a publish is seen by the leader alone
        counter.take([event(1, Step.ACKED, 7, node=2)])  # that node 2 has sent here: it led before
        await counter.count()
        await bench.sleep(module.SEND_SECONDS * 3)
        assert nodes.sent == [(2, 5)]
        sending.cancel()

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
