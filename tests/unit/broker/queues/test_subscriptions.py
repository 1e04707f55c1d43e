"""Where a group's messages come from, and where the group begins in them."""

import pytest

from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.errors import PolicyViolation, TopicNotFound
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.queue import QueueSettings
from tests.unit.broker.brokers import append_through
from tests.unit.broker.queue_world import Bench, numbered, play

WORKERS = GroupId("workers")


async def floors(bench: Bench, group: str = "workers") -> list[int]:
    sources = await bench.queues._subscriptions.find(["jobs"], GroupId(group))
    return [state.ack_floor for state, *_ in sources]


async def commit(bench: Bench, offset: int) -> None:
    wanted = OffsetToCommit(TopicName("jobs"), 0, Offset(offset))
    await bench.broker.groups.commit(CommitRequest(group_id=WORKERS, offsets=(wanted,)))


def test_a_group_begins_with_the_oldest_message():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        await (await bench.broker.partition("jobs", 0)).remove_before(Offset(2))
        assert await floors(bench) == [2]

    play(scenario)


def test_a_group_begins_at_the_end_if_its_settings_say_so():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        assert await floors(bench) == [5]

    play(scenario, settings=QueueSettings(start="latest"))


@pytest.mark.parametrize(("committed", "floor"), [(3, 3), (0, 2), (99, 5)])
def test_a_committed_offset_says_where_as_far_as_the_log_goes(committed: int, floor: int):
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        await (await bench.broker.partition("jobs", 0)).remove_before(Offset(2))
        await commit(bench, committed)
        assert await floors(bench) == [floor]

    play(scenario)


def test_sources_stay_the_same_until_something_is_another():
    async def scenario(bench: Bench) -> None:
        find = bench.queues._subscriptions.find
        first = await find(["jobs"], WORKERS)
        assert await find(["jobs"], WORKERS) == first
        await bench.broker.add_partitions("jobs", 2)
        grown = await find(["jobs"], WORKERS)
        assert [state.where.partition for state, *_ in grown] == [0, 1]
        assert grown[0][0] is first[0][0], "where it was it goes on"
        await bench.broker.delete_topic("jobs")
        with pytest.raises(TopicNotFound):
            await find(["jobs"], WORKERS)
        await bench.broker.create_topic("jobs", partitions=1)
        again = await find(["jobs"], WORKERS)
        assert again[0][0] is not first[0][0]

    play(scenario)


def test_a_reader_belongs_to_one_isolation():
    async def scenario(bench: Bench) -> None:
        await bench.queues.configure("dirty", QueueSettings(isolation="read_uncommitted"))
        find = bench.queues._subscriptions.find
        ((_, clean, _),) = await find(["jobs"], WORKERS)
        ((_, dirty, _),) = await find(["jobs"], GroupId("dirty"))
        ((_, shared, _),) = await find(["jobs"], GroupId("others"))
        assert clean is shared
        assert clean is not dirty
        assert (clean.committed_only, dirty.committed_only) == (True, False)

    play(scenario)


def test_who_only_looks_does_not_begin():
    async def scenario(bench: Bench) -> None:
        topic = bench.broker.topic("jobs")
        await bench.queues._subscriptions.peek(topic, WORKERS)
        assert WORKERS not in bench.queues.groups

    play(scenario)


def test_the_brokers_own_topics_are_no_queues():
    async def scenario(bench: Bench) -> None:
        with pytest.raises((PolicyViolation, TopicNotFound)):
            await bench.queues._subscriptions.find(["__groups"], WORKERS)

    play(scenario)


def test_what_was_written_and_nobody_waited_for_is_made_visible():
    async def scenario(bench: Bench) -> None:
        partition = await bench.broker.partition("jobs", 0)
        flush = bench.queues._subscriptions.flush
        assert not await flush(["jobs"])
        append_through(bench.broker, partition, "not synced")
        assert partition.log.high_watermark == 0
        assert await flush(["jobs"])
        assert partition.log.high_watermark == 1

    play(scenario)


def test_a_topic_that_is_deleted_as_a_group_begins_leaves_no_error_behind():
    """Nobody waits for what is written then; an error that nobody looks at is logged by asyncio."""

    async def scenario(bench: Bench) -> None:
        await bench.receive("jobs")
        await bench.broker.delete_topic("jobs")

    play(scenario)
