"""A partition's role: who may write to it, what is committed, and who hears when that changes."""

import asyncio

import pytest
from kio.schema.errors import ErrorCode

from goqueue.cluster.replication import Follower, FollowerFetch, Leader, LostData, Offline, Role
from goqueue.model import batch as batches
from goqueue.model.errors import LeadershipLost, NotEnoughReplicas, NotLeader
from goqueue.model.ids import Epoch, NodeEpoch, NodeId, Offset, PartitionEpoch
from goqueue.model.markers import Marker
from goqueue.model.settings import topic_settings
from goqueue.server.kafka.errors import coordinator_code, kafka_code
from goqueue.testing.sim import SimDisk
from tests.unit.broker.brokers import NODE, NOW, LonePartition, append, values_in
from tests.unit.broker.storage.test_partition import new_poll, told

OTHER, THIRD = NodeId(2), NodeId(3)


def leader(*isr: NodeId, epoch: int = 0, partition_epoch: int = 0) -> Leader:
    return Leader(
        node=NODE,
        epoch=Epoch(epoch),
        partition_epoch=PartitionEpoch(partition_epoch),
        replicas=(NODE, OTHER, THIRD),
        isr=frozenset((NODE, *isr)),
    )


def ack(partition: LonePartition, node: NodeId, offset: int) -> LostData | None:
    return partition.ack(
        FollowerFetch(
            node=node,
            node_epoch=NodeEpoch(1),
            synced_offset=Offset(offset),
            end_offset=Offset(offset),
        )
    )


NOT_LEADING = [Follower(OTHER, Epoch(1)), Offline("its disk is damaged", Epoch(1))]


@pytest.mark.parametrize("role", NOT_LEADING)
def test_only_the_leader_takes_writes(role: Role):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        partition.take_role(role)
        with pytest.raises(NotLeader):
            append(partition, "one")
        with pytest.raises(NotLeader):
            partition.append_marker(Marker(1, 0, coordinator_epoch=0, commits=True), NOW)
        with pytest.raises(NotLeader):
            ack(partition, OTHER, 0)
        assert partition.log.end_offset == 0

    told(story)


@pytest.mark.parametrize("role", [*NOT_LEADING, leader(epoch=1)])
def test_whoever_waits_for_a_commit_hears_that_the_leader_is_another(role: Role):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        seen = partition.wait_committed(append(partition, "one").last_offset)
        await seen
        unknown = partition.wait_committed(append(partition, "two").last_offset)
        partition.take_role(role)
        with pytest.raises(LeadershipLost):
            await unknown
        seen.result()

    told(story)


def test_a_wait_with_a_time_out_ends_well_when_the_next_leader_commits_the_record():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        partition.take_role(leader(OTHER, THIRD, epoch=1))
        waiting = partition.wait_committed(append(partition, "one").last_offset, 30.0)
        partition.take_role(Follower(OTHER, Epoch(2)))
        await partition.flush()
        assert not waiting.done()
        partition.follow_watermark(Offset(1))
        await waiting

    told(story)


def test_a_wait_with_a_time_out_fails_when_the_record_is_cut_off():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        partition.take_role(leader(OTHER, THIRD, epoch=1))
        waiting = partition.wait_committed(append(partition, "one").last_offset, 30.0)
        partition.take_role(Follower(OTHER, Epoch(2)))
        await partition.truncate_to(Offset(0))
        with pytest.raises(NotLeader) as refusal:
            await waiting
        assert not isinstance(refusal.value, LeadershipLost), "it will never be committed"

    told(story)


def test_a_former_leader_does_not_keep_a_wait_for_long():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        partition.take_role(leader(OTHER, THIRD, epoch=1))
        waiting = partition.wait_committed(append(partition, "one").last_offset, 30.0)
        partition.take_role(Follower(OTHER, Epoch(2)))
        partition.end_overdue(asyncio.get_running_loop().time() + 2.0)
        with pytest.raises(LeadershipLost, match="node 2 leads"):
            await waiting

    told(story)


def test_the_sync_of_a_former_leader_commits_nothing():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        appended = append(partition, "one")
        partition.wait_committed(appended.last_offset).add_done_callback(
            lambda done: done.exception()
        )
        partition.take_role(Follower(OTHER, Epoch(1)))
        await partition.flush()
        assert partition.log.synced_offset == 1
        assert partition.log.high_watermark == 0
        with pytest.raises(LeadershipLost, match="node 2 leads topic-0, in epoch 1"):
            await partition.wait_committed(appended.last_offset)

    told(story)


def test_readers_wake_when_the_role_is_another():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        with new_poll(10_000) as poll:
            poll.subscribe([partition])
            partition.take_role(Follower(OTHER, Epoch(1)))
            assert await poll.wait()

    told(story)


def test_batches_bear_the_epoch_of_the_role():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        append(partition, "one")
        partition.take_role(leader(epoch=4))
        append(partition, "two")
        await partition.flush()
        chunk = await partition.read(Offset(0), 1 << 20, Offset(2))
        assert [header.leader_epoch for header in batches.headers(chunk.data)] == [0, 4]
        assert partition.log.epochs.latest == 4

    told(story)


def test_a_commit_waits_for_every_replica_in_sync():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, **{"min.insync.replicas": "2"})
        partition.take_role(leader(OTHER, THIRD, epoch=1))
        committed = partition.wait_committed(append(partition, "one").last_offset)
        await partition.flush()
        ack(partition, OTHER, 1)
        assert not committed.done()
        assert await values_in(partition) == []
        ack(partition, THIRD, 1)
        await committed
        assert await values_in(partition) == ["one"]
        assert ack(partition, OTHER, 0) == LostData(OTHER, Offset(1), Offset(0))

    told(story)


def test_a_commit_waits_for_the_leaders_own_sync_too():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        partition.take_role(leader(OTHER, epoch=1))
        committed = partition.wait_committed(append(partition, "one").last_offset)
        ack(partition, OTHER, 1)
        assert partition.log.high_watermark == 0
        await committed

    told(story)


def test_a_replica_that_was_let_go_need_not_acknowledge():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, **{"min.insync.replicas": "2"})
        partition.take_role(leader(OTHER, THIRD, epoch=1))
        committed = partition.wait_committed(append(partition, "one").last_offset)
        await partition.flush()
        ack(partition, OTHER, 1)
        partition.take_role(leader(OTHER, epoch=1, partition_epoch=1))
        await committed

    told(story)


def test_with_too_few_in_sync_nothing_is_committed_and_acks_all_is_refused():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, **{"min.insync.replicas": "2"})
        partition.take_role(leader(epoch=1))
        with pytest.raises(NotEnoughReplicas, match=r"setting min\.insync\.replicas") as refused:
            partition.check_enough_replicas()
        assert kafka_code(refused.value) is ErrorCode.not_enough_replicas
        assert coordinator_code(refused.value) is ErrorCode.coordinator_not_available
        committed = partition.wait_committed(append(partition, "acks=1").last_offset)
        await partition.flush()
        assert not committed.done()
        partition.apply_settings(topic_settings({"min.insync.replicas": "1"}))
        await committed
        partition.check_enough_replicas()

    told(story)


@pytest.mark.parametrize("flush", ["interval", "never"])
def test_without_a_sync_what_is_written_is_committed(flush: str):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, flush=flush)
        append(partition, "one")
        assert partition.log.high_watermark == 1
        partition.take_role(leader(OTHER, epoch=1))
        append(partition, "two")
        assert partition.log.high_watermark == 1
        ack(partition, OTHER, 2)
        assert partition.log.high_watermark == 2

    told(story)


def test_a_newer_role_does_not_give_way_to_an_older_one():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        partition.take_role(Follower(OTHER, Epoch(2)))
        with pytest.raises(AssertionError):
            partition.take_role(leader(epoch=1))
        await asyncio.sleep(0)

    told(story)
