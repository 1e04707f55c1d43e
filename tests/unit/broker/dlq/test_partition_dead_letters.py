"""Dead letters whose partitions are led by different nodes: any node gives them all."""

import asyncio

import pytest

from goqueue.broker.dlq.browse import DeadLetterFilter
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.errors import GoQueueError, PartitionsMissing
from goqueue.model.ids import NodeId
from tests import queue_verbs
from tests.unit.broker.cluster.apart import HOSTS, led_apart
from tests.unit.broker.dlq.dead_apart import (
    ALL,
    COUNT,
    dead_apart,
    letters,
    values,
    wait_for_letters,
)


def test_dead_letters_of_all_leaders_are_browsed_redriven_and_purged_at_any_node():
    with dead_apart(2, 3, 1) as apart:
        for host in HOSTS:
            assert letters(apart, host) == 12
            found = apart.world.run(apart[host].queues.dead_letters.browse("orders", limit=7))
            assert [(each.partition, each.dlq_offset) for each in found] == [
                (0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2),
            ]  # fmt: skip
            rest = apart.world.run(
                apart[host].queues.dead_letters.browse("orders", limit=100, after=(1, 2))
            )
            assert len(rest) == 5
        moved = apart.world.run(apart["c"].queues.dead_letters.redrive("orders", limit=6))
        assert moved == 6
        assert values(apart) == sorted(ALL + ALL[:6])
        assert letters(apart, "b") == 6
        taken = apart.world.run(apart["b"].queues.dead_letters.list_taken("orders"))
        assert [(index, int(floor)) for index, floor, _ in taken] == [(0, 4), (1, 2), (2, 0)]
        assert apart.world.run(apart["b"].queues.dead_letters.purge("orders")) == 6
        assert [letters(apart, host) for host in HOSTS] == [0, 0, 0]


def test_a_leader_that_is_gone_is_named_and_the_others_go_on():
    with dead_apart(2, 3, 1) as apart:
        apart.nodes.stop("c")
        missing: dict[int, GoQueueError] = {}
        dead_letters = apart["a"].queues.dead_letters
        found = apart.world.run(dead_letters.browse("orders", missing=missing))
        assert {each.partition for each in found} == {0, 2}
        assert missing.keys() == {1}
        with pytest.raises(PartitionsMissing, match="partition 1") as refused:
            apart.world.run(dead_letters.redrive("orders"))
        # Partition 2 of the topic is led by c, so only those of partition 0 arrived.
        assert (refused.value.done, set(refused.value.missing)) == (COUNT, {1, 2})
        apart.nodes.start("c")
        apart.world.run_until(lambda: "c" in apart.nodes.brokers, limit_s=60)
        apart.world.run_for(10)
        assert apart.world.run(dead_letters.redrive("orders")) <= 2 * COUNT
        wait_for_letters(apart, 0)
        assert values(apart) == sorted(ALL * 2)


def test_a_redrive_is_shown_and_ended_at_any_node():
    with dead_apart(2, 3, 1) as apart:
        broker = apart["a"]

        async def start() -> str:
            redrive = broker.queues.redrives.start(
                "orders", which=DeadLetterFilter(), limit=None, target=None, rate=1.0
            )
            return redrive.redrive_id

        redrive_id = apart.world.run(start())
        for host in HOSTS:
            (found,) = apart.world.run(apart[host].queues.redrives.of("orders"))
            assert (found.redrive_id, found.state) == (redrive_id, "running")
        ended = apart.world.run(apart["c"].queues.redrives.cancel("orders", redrive_id))
        assert ended.state == "cancelled"
        found = apart.world.run(apart["b"].queues.redrives.get("orders", redrive_id))
        assert found.state == "cancelled"
        apart.world.run_for(20)
        assert letters(apart) > 0


@pytest.mark.parametrize("replicas", [[3], [3, 1], [3, 1, 2]])
def test_dead_letters_have_as_many_replicas_as_their_topic(replicas: list[int]):
    with led_apart() as apart:
        nodes = [NodeId(each) for each in replicas]
        apart.world.run(apart["a"].create_topic("bills", partitions=1, assignments=[nodes]))
        apart.world.run_until(
            lambda: all("bills" in seen for seen in apart.nodes.topics_seen.values())
        )

        async def kill_one() -> None:
            broker = apart["c"]
            await apart.messages["c"].publish("bills", [OutgoingMessage(b"x")])
            (found,) = await queue_verbs.receive(broker.queues, ["bills"], "g", "c")
            await queue_verbs.reject(broker.queues, [found.receipt], reason="bad")
            async with asyncio.timeout(30):
                while await apart["b"].queues.dead_letters.count("bills") != 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

        apart.world.run_for(5)  # until all are in sync
        apart.world.run(kill_one())
        metadata = apart["a"].metadata
        topic = metadata.topic("bills.dlq")
        assert len(metadata.partition(topic.topic_id, 0).replicas) == len(replicas)
