"""The logs of a partition change their role together."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid5

import msgspec
import pytest

from goqueue.broker import Broker, Partition
from goqueue.broker.storage.bundle import DATA, LEDGER, Bundle, log_id
from goqueue.cluster import Topic
from goqueue.cluster.replication import Follower, FollowerFetch, Leader, Offline
from goqueue.log import epochs
from goqueue.log.replica import Replica
from goqueue.model.errors import FencedLeaderEpoch, LeadershipLost, NotLeader, TopicNotFound
from goqueue.model.ids import Epoch, Instant, NodeEpoch, NodeId, Offset, PartitionEpoch
from goqueue.runtime import Environment
from goqueue.testing.sim import World
from tests.unit.broker.brokers import CONFIG, NODE, append, publish

OTHER, THIRD = NodeId(2), NodeId(3)
SECOND_NS = 1_000_000_000


def leader(*isr: NodeId, epoch: int, partition_epoch: int = 0) -> Leader:
    return Leader(
        node=NODE,
        epoch=Epoch(epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        replicas=(NODE, OTHER, THIRD),
        isr=frozenset((NODE, *isr)),
    )


def follower(epoch: int) -> Follower:
    return Follower(OTHER, Epoch(epoch))


@contextlib.asynccontextmanager
async def replica(environment: Environment) -> AsyncIterator[Broker]:
    """A node that keeps one of several replicas of each partition, and has no part in it yet."""
    broker = Broker(environment, CONFIG)
    broker.partitions.role_of = lambda topic_id, _index: (
        None if topic_id is None else Offline("not told yet", Epoch(0))
    )
    broker.partitions.replica_of = lambda topic_id, index: (
        None if topic_id is None else Replica(topic_id, index)
    )
    async with broker.running():
        yield broker


def tell(story: Callable[[Broker, Topic], Awaitable[None]]) -> None:
    async def main(environment: Environment) -> None:
        async with replica(environment) as broker:
            await story(broker, await broker.create_topic("t"))

    with World(0) as world:
        world.run(main(world.environment("a")))


async def both_logs(broker: Broker, topic: Topic) -> tuple[Bundle, Partition, Partition]:
    data = await broker.partitions.open_log(topic, 0, DATA)
    ledger = await broker.partitions.open_log(topic, 0, LEDGER)
    return broker.partitions.bundle(topic, 0), data, ledger


def ack(log: Partition, node: NodeId, offset: int) -> None:
    log.ack(
        FollowerFetch(
            node=node,
            node_epoch=NodeEpoch(1),
            synced_offset=Offset(offset),
            end_offset=Offset(offset),
        )
    )


def now() -> Instant:
    return Instant(int(asyncio.get_running_loop().time() * SECOND_NS))


def test_no_log_takes_a_write_before_all_have_noted_the_epoch():
    async def main(world: World) -> None:
        async with replica(world.environment("a")) as broker:
            topic = await broker.create_topic("t")
            _, data, ledger = await both_logs(broker, topic)
            world.disk("a").slow_syncs(0.1, 1.0)
            leading = broker.partitions.change_role(topic, 0, leader(epoch=3))
            while not leading.done():
                if data.leads or ledger.leads:
                    for log in (data, ledger):
                        stored = epochs.load(world.disk("a").crash(), log.log.directory)
                        assert [entry.epoch for entry in stored] == [3]
                        append(log, "taken")
                    break
                for log in (data, ledger):
                    with pytest.raises(NotLeader, match="about to lead it, in epoch 3"):
                        append(log, "too early")
                await broker.environment.clock.sleep(0.01)
            await leading
            assert data.leader_epoch == ledger.leader_epoch == 3

    with World(0) as world:
        world.run(main(world))


def test_whoever_waits_on_any_log_hears_that_another_node_leads():
    async def story(broker: Broker, topic: Topic) -> None:
        _, data, ledger = await both_logs(broker, topic)
        await broker.partitions.change_role(topic, 0, leader(epoch=1))
        waits = [log.wait_committed(append(log, "one").last_offset) for log in (data, ledger)]
        await broker.partitions.change_role(topic, 0, follower(epoch=2))
        for log, wait in zip((data, ledger), waits, strict=True):
            with pytest.raises(LeadershipLost, match="node 2 leads t-0"):
                await wait
            with pytest.raises(NotLeader):
                append(log, "two")

    tell(story)


def test_the_newest_role_stands_whatever_was_under_way():
    async def story(broker: Broker, topic: Topic) -> None:
        partitions = broker.partitions
        bundle, data, ledger = await both_logs(broker, topic)
        first = partitions.change_role(topic, 0, leader(epoch=1))
        await asyncio.sleep(0)
        await partitions.change_role(topic, 0, follower(epoch=2))
        last = partitions.change_role(topic, 0, leader(epoch=3))
        await partitions.change_role(topic, 0, leader(OTHER, epoch=3, partition_epoch=1))
        await asyncio.gather(first, last, return_exceptions=True)
        assert bundle.leads
        assert {data.role, ledger.role} == {leader(OTHER, epoch=3, partition_epoch=1)}
        await partitions.change_role(topic, 0, follower(epoch=4))
        assert {data.role, ledger.role} == {follower(epoch=4)}

    tell(story)


def test_a_log_that_is_opened_later_has_the_role_of_the_others():
    async def story(broker: Broker, topic: Topic) -> None:
        await broker.partitions.change_role(topic, 0, leader(OTHER, epoch=5))
        assert broker.partitions.bundle(topic, 0).find(LEDGER) is None
        ledger = await broker.partitions.ledger(topic, 0)
        assert ledger.role == leader(OTHER, epoch=5)
        assert ledger.log.epochs.latest == 5
        committed = ledger.wait_committed(append(ledger, "one").last_offset)
        await ledger.flush()
        assert not committed.done()  # the ISR is that of the partition
        ack(ledger, OTHER, 1)
        await committed

    tell(story)


def test_a_stored_ledger_leads_with_its_partition():
    async def story(broker: Broker, topic: Topic) -> None:
        broker.partitions.directories.make_ledger_directory(topic, 0)
        led: list[str] = []

        async def note(_topic: Topic, bundle: Bundle) -> None:
            led.extend(str(log) for log in bundle)

        broker.partitions.on_led = note
        await broker.partitions.change_role(topic, 0, leader(epoch=1))
        assert led == ["t-0", "t-0 (ledger)"]

    tell(story)


def test_a_partition_that_cannot_be_led_is_offline():
    async def story(broker: Broker, topic: Topic) -> None:
        _, data, ledger = await both_logs(broker, topic)
        ledger.log.fail("broken")
        with pytest.raises(Exception, match="broken"):
            await broker.partitions.change_role(topic, 0, leader(epoch=1))
        for log in (data, ledger):
            assert isinstance(log.role, Offline)
            assert "broken" in log.role.reason

    tell(story)


def test_a_log_is_not_led_with_an_epoch_older_than_its_records():
    async def main(environment: Environment) -> None:
        async with replica(environment) as broker:
            topic = await broker.create_topic("t")
            await broker.partitions.change_role(topic, 0, leader(epoch=7))
            await publish(broker, "t", "one")
        async with replica(environment) as broker:
            with pytest.raises(FencedLeaderEpoch, match="records of epoch 7"):
                await broker.partitions.change_role(topic, 0, leader(epoch=6))

    with World(0) as world:
        world.run(main(world.environment("a")))


def test_who_is_in_sync_is_so_on_all_logs():
    async def story(broker: Broker, topic: Topic) -> None:
        bundle, data, ledger = await both_logs(broker, topic)
        await broker.partitions.change_role(topic, 0, leader(OTHER, epoch=1))
        append(data, "message")
        append(ledger, "lease")
        await asyncio.gather(data.flush(), ledger.flush())
        for log in (data, ledger):
            ack(log, OTHER, 1)
        ack(data, THIRD, 1)
        assert bundle.propose(now()) is None
        ack(ledger, THIRD, 1)
        proposal = bundle.propose(now())
        assert proposal is not None
        assert [member.node for member in proposal.isr] == [NODE, OTHER, THIRD]
        assert bundle.propose(now(), ineligible={THIRD}) is None

        append(ledger, "ack")
        await broker.environment.clock.sleep(10)
        proposal = bundle.propose(now(), ineligible={THIRD})
        assert proposal is not None
        assert [member.node for member in proposal.isr] == [NODE]  # the other one has half of it

    tell(story)


def test_other_nodes_name_a_log_by_an_id_of_its_own():
    async def story(broker: Broker, topic: Topic) -> None:
        partitions = broker.partitions
        bundle, _, ledger = await both_logs(broker, topic)
        ledger_id = uuid5(topic.topic_id, "ledger")
        assert log_id(topic.topic_id, LEDGER) == ledger_id
        assert partitions.find_bundle(topic.topic_id, 0) == (bundle, DATA)
        found = partitions.find_bundle(log_id(topic.topic_id, LEDGER), 0)
        assert found == (bundle, LEDGER)
        assert bundle.find(LEDGER) is ledger
        assert partitions.find_bundle(topic.topic_id, 1) is None
        await broker.delete_topic("t")
        assert partitions.find_bundle(topic.topic_id, 0) is None

    tell(story)


def test_a_request_for_a_deleted_topic_leaves_the_next_one_of_its_name_alone():
    async def story(broker: Broker, topic: Topic) -> None:
        await broker.delete_topic("t")
        again = await broker.create_topic("t")
        await broker.partitions.change_role(again, 0, leader(epoch=1))
        with pytest.raises(TopicNotFound):
            await broker.partitions.get(topic, 0)
        with pytest.raises(TopicNotFound):
            await broker.partitions.change_role(topic, 0, leader(epoch=2))
        assert broker.partitions.bundle(again, 0).leads

    tell(story)


def test_the_ledger_is_committed_by_as_many_replicas_as_the_messages():
    async def story(broker: Broker, topic: Topic) -> None:
        await broker.partitions.change_role(topic, 0, leader(epoch=1))
        ledger = await broker.partitions.ledger(topic, 0)
        assert ledger.has_enough_replicas
        settings = msgspec.structs.replace(topic.settings, min_insync_replicas=2)
        broker.partitions.apply_settings(msgspec.structs.replace(topic, settings=settings))
        assert not ledger.has_enough_replicas

    tell(story)
