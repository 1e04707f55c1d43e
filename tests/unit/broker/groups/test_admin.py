"""Groups from outside: their lag, and how their offsets are moved."""

import pytest

from goqueue.broker.groups.admin import GroupAdmin, Reset, ResetTo
from goqueue.broker.groups.http_members import GroupMembers
from goqueue.broker.groups.http_requests import JoinAsReader
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.groups.errors import GroupNotEmpty, GroupNotFound
from goqueue.model.errors import InvalidRequest, OffsetOutOfRange, TopicNotFound
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.model.topic_partition import TopicPartition
from tests.unit.broker.queue_world import Bench, numbered, play

READERS = GroupId("readers")
JOBS = TopicPartition(TopicName("jobs"), 0)


async def committed(bench: Bench, offset: int) -> GroupAdmin:
    """Ten messages with the times 0 to 9 thousand, and the group at the offset."""
    messages = [OutgoingMessage(b"x", timestamp=1_000 * n) for n in range(10)]
    await bench.publish("jobs", *messages)
    admin = GroupAdmin(bench.broker)
    await admin.commit(READERS, {JOBS: Offset(offset)})
    return admin


@pytest.mark.parametrize(
    ("to", "value", "after"),
    [
        ("earliest", None, 2),
        ("latest", None, 10),
        ("offset", 7, 7),
        ("offset", 0, 2),
        ("offset", 99, 10),
        ("shift", 3, 8),
        ("shift", -1, 4),
        ("shift", -99, 2),
        ("shift", 99, 10),
        ("timestamp", 6_500, 7),
        ("timestamp", 99_000, 10),
    ],
)
def test_offsets_are_moved_to_where_something_can_be_read(
    to: ResetTo, value: int | None, after: int
):
    async def scenario(bench: Bench) -> None:
        admin = await committed(bench, 5)
        partition = await bench.broker.partition("jobs", 0)
        await partition.remove_before(Offset(2))
        (move,) = await admin.reset(Reset(group_id=READERS, to=to, value=value, dry_run=True))
        assert (move.before, move.after) == (5, after)
        assert (await admin.lag(READERS))[1][0].committed == 5, "a dry run moves nothing"
        await admin.reset(Reset(group_id=READERS, to=to, value=value))
        assert (await admin.lag(READERS))[1][0].committed == after

    play(scenario)


@pytest.mark.parametrize(
    "reset",
    [
        Reset(group_id=READERS, to="offset"),
        Reset(group_id=READERS, to="latest", value=1),
        Reset(group_id=READERS, to="offset", value=-1),
        Reset(group_id=READERS, to="latest", partition=0),
    ],
)
def test_a_reset_that_makes_no_sense_is_refused(reset: Reset):
    async def scenario(bench: Bench) -> None:
        with pytest.raises(InvalidRequest):
            await GroupAdmin(bench.broker).reset(reset)

    play(scenario)


def test_the_offsets_of_a_group_at_work_are_left_alone():
    async def scenario(bench: Bench) -> None:
        admin = await committed(bench, 5)
        await GroupMembers(bench.broker).join(
            JoinAsReader(group_id=READERS, topics=(TopicName("jobs"),))
        )
        with pytest.raises(GroupNotEmpty, match="stop them"):
            await admin.reset(Reset(group_id=READERS, to="latest"))
        with pytest.raises(GroupNotEmpty):
            await admin.commit(READERS, {JOBS: Offset(0)})
        await admin.reset(Reset(group_id=READERS, to="latest", dry_run=True))
        assert (await admin.lag(READERS))[1][0].committed == 5

    play(scenario)


def test_lag_is_told_of_what_a_member_owns_and_of_what_was_committed():
    async def scenario(bench: Bench) -> None:
        admin = await committed(bench, 5)
        await bench.broker.add_partitions("jobs", 2)
        _, (only,) = await admin.lag(READERS)
        assert (only.committed, only.earliest, only.end, only.member) == (5, 0, 10, None)
        await GroupMembers(bench.broker).join(
            JoinAsReader(group_id=READERS, topics=(TopicName("jobs"),))
        )
        await bench.sleep(1)
        _, (first, second) = await admin.lag(READERS)
        assert first.member is not None
        assert (second.partition, second.committed, second.end) == (1, None, 0)

    play(scenario)


def test_what_does_not_exist_is_told():
    async def scenario(bench: Bench) -> None:
        admin = GroupAdmin(bench.broker)
        for work in (admin.lag(READERS), admin.reset(Reset(group_id=READERS, to="latest"))):
            with pytest.raises(GroupNotFound):
                await work
        with pytest.raises(TopicNotFound):
            await admin.commit(READERS, {TopicPartition(TopicName("none"), 0): Offset(0)})
        with pytest.raises(TopicNotFound):
            await admin.reset(Reset(group_id=READERS, to="latest", topic="none"))

    play(scenario)


def test_a_deleted_topic_is_no_part_of_a_groups_lag():
    async def scenario(bench: Bench) -> None:
        admin = await committed(bench, 5)
        await bench.broker.create_topic("other", partitions=1)
        await admin.commit(READERS, {TopicPartition(TopicName("other"), 0): Offset(0)})
        await bench.broker.delete_topic("jobs")
        _, lag = await admin.lag(READERS)
        assert [each.topic for each in lag] == ["other"]

    play(scenario)


def test_the_floor_of_a_queue_stays_within_its_log():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(3))
        await bench.ack(await bench.receive(group="workers"))
        admin, workers = GroupAdmin(bench.broker), GroupId("workers")
        with pytest.raises(OffsetOutOfRange, match="would miss"):
            await admin.commit(workers, {JOBS: Offset(4)})
        await admin.commit(workers, {JOBS: Offset(3)})

    play(scenario)
