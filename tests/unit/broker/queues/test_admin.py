"""Groups of both modes: which is a queue, and what is listed of them."""

import asyncio

import pytest

from goqueue.broker.queues.members import JoinAsWorker
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.groups.errors import GroupNotEmpty, GroupNotFound
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.queue import QueueSettings
from tests.unit.broker.queue_world import Bench, numbered, play

WORKERS = GroupId("workers")


async def commit(bench: Bench, group: str) -> None:
    offset = OffsetToCommit(TopicName("jobs"), 0, Offset(0))
    await bench.broker.groups.commit(CommitRequest(group_id=GroupId(group), offsets=(offset,)))


def test_a_group_is_a_queue_once_it_began_as_one():
    async def scenario(bench: Bench) -> None:
        groups = bench.broker.queue_groups
        assert not groups.is_queue(WORKERS)
        await commit(bench, "readers")
        assert not groups.is_queue(GroupId("readers"))
        await bench.receive()
        assert groups.is_queue(WORKERS)
        await commit(bench, "workers")
        assert groups.is_queue(WORKERS), "an offset alone does not change that"

    play(scenario)


def test_groups_are_listed_by_name_and_chosen_by_state_and_type():
    async def scenario(bench: Bench) -> None:
        groups = bench.broker.queue_groups
        await commit(bench, "a-reader")
        await bench.publish("jobs", *numbered(1))
        await bench.receive(group="workers")
        await bench.broker.queue_members.join(
            JoinAsWorker(group_id=GroupId("z-members"), topics=(TopicName("jobs"),))
        )
        listed = await groups.list_groups()
        assert [each.group_id for each in listed] == ["a-reader", "workers", "z-members"]
        share = await groups.list_groups(types=["SHARE"])
        assert [each.group_id for each in share] == ["workers", "z-members"]
        empty = await groups.list_groups(states=["empty"])
        assert [each.group_id for each in empty] == ["a-reader"]
        assert await groups.list_groups(states=["empty"], types=["share"]) == ()

    play(scenario)


def test_a_group_that_only_has_settings_is_described():
    async def scenario(bench: Bench) -> None:
        groups = bench.broker.queue_groups
        found = await groups.describe(WORKERS)
        assert (found.state, found.topics) == ("Empty", [])
        with pytest.raises(GroupNotFound):
            await groups.describe(GroupId("strangers"))

    play(scenario, settings=QueueSettings(visibility_ms=1_000))


def test_a_group_at_work_is_not_deleted_and_one_without_members_is():
    async def scenario(bench: Bench) -> None:
        groups, members = bench.broker.queue_groups, bench.broker.queue_members
        joined = await members.join(JoinAsWorker(group_id=WORKERS, topics=(TopicName("jobs"),)))
        host = bench.broker.groups.host
        committing = asyncio.ensure_future(commit(bench, "another"))
        await asyncio.sleep(0.0001)  # it has decided, and waits for the disk
        assert host.pending_commit() is not None
        with pytest.raises(GroupNotEmpty, match="stop them first"):
            await groups.refuse_members(WORKERS)
        assert host.pending_commit() is None, "a refusal waits for the log"
        await committing
        with pytest.raises(GroupNotEmpty):
            await groups.delete(WORKERS)
        await members.leave(WORKERS, joined.member_id)
        await groups.refuse_members(WORKERS)
        await groups.delete(WORKERS)
        with pytest.raises(GroupNotFound):
            await groups.describe(WORKERS)

    play(scenario)
