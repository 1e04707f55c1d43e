"""What one poll of a member reads: turns, limits, and what is skipped."""

from uuid import UUID

from goqueue.broker.groups.poll_reader import PollRecords, Source, read_partitions, rotate
from goqueue.model.ids import Offset, TopicId, TopicIdPartition
from goqueue.testing.sim import SimDisk
from tests.unit.broker.brokers import LonePartition, append
from tests.unit.broker.storage.test_partition import told

TOPIC = TopicId(UUID(int=1))


def place(index: int) -> TopicIdPartition:
    return TopicIdPartition(TOPIC, index)


def sources(partition: LonePartition, *indexes: int) -> list[Source]:
    return [Source(place(index), partition, Offset(0)) for index in indexes]


def test_every_partition_has_its_turn_to_be_the_first():
    async def story(disk: SimDisk) -> None:
        some = sources(LonePartition(disk), 2, 0, 1)
        orders = {
            first: [
                each.topic_partition.partition
                for each in rotate(some, None if first is None else place(first))
            ]
            for first in (None, 0, 1, 2, 3)
        }
        assert orders == {
            None: [0, 1, 2],
            0: [0, 1, 2],
            1: [1, 2, 0],
            2: [2, 0, 1],
            3: [0, 1, 2],
        }
        assert rotate([], place(1)) == []

    told(story)


async def filled(disk: SimDisk) -> LonePartition:
    partition = LonePartition(disk)
    for value in ("aa", "bb", "cc"):
        append(partition, value)
    await partition.flush()
    return partition


def read_of(found: PollRecords) -> list[list[bytes | None]]:
    return [[record.value for record in portion.records] for portion in found.portions]


def test_a_poll_is_bounded_in_messages_over_all_partitions():
    async def story(disk: SimDisk) -> None:
        some = sources(await filled(disk), 0, 1, 2)
        found = await read_partitions(some, limit=4, bytes_max=1_000)
        assert read_of(found) == [[b"aa", b"bb", b"cc"], [b"aa"]]
        assert [portion.next_offset for portion in found.portions] == [3, 1]

    told(story)


def test_a_poll_is_bounded_in_bytes_over_all_partitions():
    async def story(disk: SimDisk) -> None:
        some = sources(await filled(disk), 0, 1, 2, 3)
        found = await read_partitions(some, limit=100, bytes_max=6)
        assert read_of(found) == [[b"aa"], [b"aa"], [b"aa"]], "a batch of each while there is room"

    told(story)


def test_who_has_read_everything_gets_nothing_and_no_problem():
    async def story(disk: SimDisk) -> None:
        at_end = Source(place(0), await filled(disk), Offset(3))
        found = await read_partitions([at_end], limit=10, bytes_max=1_000)
        assert found.is_empty
        assert found.skipped == {}

    told(story)


def test_what_has_expired_is_told_and_skipped():
    async def story(disk: SimDisk) -> None:
        partition = await filled(disk)
        await partition.remove_before(Offset(2))
        found = await read_partitions(
            [Source(place(0), partition, Offset(0), starts_at_end=True)], limit=10, bytes_max=1_000
        )
        assert read_of(found) == [[b"cc"]], "whoever fell behind goes on with the oldest"
        (problem,) = found.problems
        assert problem.endswith("continued at 2")
        assert not found.is_empty

    told(story)


def test_beyond_the_end_the_member_says_where_to_go_on():
    async def story(disk: SimDisk) -> None:
        partition = await filled(disk)
        for starts_at_end, expected in ((True, []), (False, [[b"aa", b"bb", b"cc"]])):
            beyond = Source(place(0), partition, Offset(9), starts_at_end)
            found = await read_partitions([beyond], limit=10, bytes_max=1_000)
            assert read_of(found) == expected
            assert len(found.problems) == 1

    told(story)


def test_a_topic_that_is_being_deleted_is_passed_over():
    async def story(disk: SimDisk) -> None:
        gone, there = await filled(disk), await filled(SimDisk())
        gone.abandon()
        some = [Source(place(0), gone, Offset(0)), Source(place(1), there, Offset(0))]
        found = await read_partitions(some, limit=10, bytes_max=1_000)
        assert [portion.source.topic_partition for portion in found.portions] == [place(1)]
        assert found.problems == []

    told(story)
