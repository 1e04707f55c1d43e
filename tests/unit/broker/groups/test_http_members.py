"""Members that the broker reads for, without HTTP around them."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from goqueue.broker import Broker
from goqueue.broker.groups.http_members import SWEEP_SESSIONS_MIN, GroupMembers
from goqueue.broker.groups.http_requests import (
    JoinAsReader,
    Membership,
    NotAssigned,
    Polled,
    PollRequest,
)
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.publish import Messages
from goqueue.groups import FetchRequest, HeartbeatRequest
from goqueue.groups.errors import IllegalGeneration, InvalidGroupRequest, UnknownMember
from goqueue.model import ids
from goqueue.model.config import Config, GroupsConfig
from goqueue.model.errors import TopicNotFound
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.model.markers import Marker
from goqueue.model.topic_partition import TopicPartition
from goqueue.runtime import real_environment

GROUP = GroupId("g")


class Groups:
    """A broker with a topic of two partitions."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.members = GroupMembers(broker)
        self._messages = Messages(broker)

    async def join(self, **settings: Any) -> Membership:
        wanted = {"topics": ("t",), "auto_commit_interval_ms": 0, **settings}
        return await self.members.join(JoinAsReader(group_id=GROUP, **wanted))

    async def poll(self, member: Membership, *, wait_ms: int = 0, **changes: Any) -> Polled:
        request = PollRequest(
            group_id=GROUP,
            member_id=member.member_id,
            **{"generation": member.generation, "limit": 100, "bytes_max": 1 << 20, **changes},
        )
        poll = LongPoll(self.broker.environment.clock, wait_ms) if wait_ms else None
        return await self.members.poll(request, poll)

    async def publish(self, *values: str, partition: int = 0) -> None:
        await self._messages.publish(
            "t", [OutgoingMessage(value.encode(), partition=partition) for value in values]
        )

    def committed(self, partition: int = 0) -> int | None:
        key = ids.TopicPartition(TopicName("t"), partition)
        (fetched,) = self.broker.groups.host.ahead.fetch(
            [FetchRequest(group_id=GROUP, partitions=(key,))]
        ).reply.reply
        found = fetched.offsets[key]
        return None if found is None else found.offset


@pytest.fixture
async def groups(tmp_path: Path) -> AsyncIterator[Groups]:
    config = Config(data_dir=str(tmp_path), groups=GroupsConfig(session_timeout_ms_min=1))
    async with Broker(real_environment(), config).running() as broker:
        await broker.create_topic("t", partitions=2)
        yield Groups(broker)


def values(polled: Polled) -> list[str]:
    return [(r.value or b"").decode() for d in polled.deliveries for r in d.records]


async def test_messages_come_once_and_in_order(groups: Groups):
    member = await groups.join()
    await groups.publish("a", "b", "c")
    first = await groups.poll(member, limit=2)
    second = await groups.poll(member, limit=2)
    assert (values(first), values(second)) == (["a", "b"], ["c"])
    assert groups.committed() == 2


async def test_who_is_gone_when_messages_come_is_given_nothing(groups: Groups):
    member = await groups.join()
    request = PollRequest(
        group_id=GROUP,
        member_id=member.member_id,
        generation=member.generation,
        limit=10,
        bytes_max=1000,
    )
    poll = LongPoll(groups.broker.environment.clock, 10_000)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(groups.members.poll(request, poll))
        while not groups.broker.groups._watchers:  # noqa: ASYNC110 # nobody tells of it
            await asyncio.sleep(0)
        poll.end()
        await groups.publish("a")
    assert values(waiting.result()) == []
    assert values(await groups.poll(member)) == ["a"]


async def test_a_session_that_was_forgotten_goes_on_from_what_is_committed(groups: Groups):
    member = await groups.join(auto_commit_interval_ms=None)
    await groups.publish("a", "b")
    assert values(await groups.poll(member)) == ["a", "b"]
    place = TopicPartition("t", 0)
    await groups.members.commit(GROUP, member.member_id, member.generation, {place: Offset(1)})
    groups.members = GroupMembers(groups.broker)  # as after a restart
    assert values(await groups.poll(member)) == ["b"]
    await groups.poll(member)
    assert groups.committed() == 1  # it still commits for itself


async def test_transactions_and_their_markers_are_stepped_over(groups: Groups):
    member = await groups.join()
    broker = groups.broker
    partition = await broker.partition("t", 0)
    await groups.publish("a")
    marker = partition.append_marker(
        Marker(7, 0, coordinator_epoch=0, commits=True),
        now=broker.environment.clock.now(),
    )
    await partition.wait_committed(marker)
    assert values(await groups.poll(member)) == ["a"]
    await groups.poll(member)
    await groups.poll(member)
    assert groups.committed() == 2
    await groups.publish("b")
    assert values(await groups.poll(member)) == ["b"]


async def test_commits_are_all_or_nothing(groups: Groups):
    first = await groups.join(auto_commit_interval_ms=None)
    second = await groups.join(auto_commit_interval_ms=None)
    told = (await groups.poll(first)).membership
    assert told.revoked == [TopicPartition("t", 1)]
    kept = (await groups.poll(told)).membership
    assert kept.partitions == [TopicPartition("t", 0)]
    assert (await groups.poll(second)).membership.partitions == [TopicPartition("t", 1)]
    offsets = {TopicPartition("t", index): Offset(0) for index in range(2)}
    with pytest.raises(NotAssigned):
        await groups.members.commit(GROUP, kept.member_id, kept.generation, offsets)
    assert groups.committed() is None


async def test_a_kafka_clients_member_is_not_read_for(groups: Groups):
    await groups.broker.groups.consumer_heartbeat(
        HeartbeatRequest(
            group_id=GROUP,
            member_id="kafka",
            member_epoch=0,
            subscribed_names=(TopicName("t"),),
            rebalance_timeout_ms=1_000,
        )
    )
    with pytest.raises(InvalidGroupRequest):
        await groups.members.assignment(GROUP, "kafka")


async def test_strangers_are_refused(groups: Groups):
    member = await groups.join()
    with pytest.raises(UnknownMember):
        await groups.members.heartbeat(GROUP, "nobody", 1)
    with pytest.raises(UnknownMember):
        await groups.members.heartbeat(GroupId("none"), member.member_id, 1)
    with pytest.raises(IllegalGeneration):
        await groups.members.heartbeat(GROUP, member.member_id, 7)
    with pytest.raises(TopicNotFound):
        await groups.join(topics=("no-such-topic",))


async def test_sessions_end_with_their_members(groups: Groups):
    for _ in range(2 * SWEEP_SESSIONS_MIN):
        member = await groups.join(session_timeout_ms=60_000)
        await groups.members.leave(GROUP, member.member_id, is_done=True)
    assert len(groups.members) == 0
    for _ in range(2 * SWEEP_SESSIONS_MIN):  # these go without a word
        member = await groups.join()
        await groups.broker.groups.consumer_heartbeat(
            HeartbeatRequest(group_id=GROUP, member_id=member.member_id, member_epoch=-1)
        )
    assert len(groups.members) <= SWEEP_SESSIONS_MIN


async def test_a_poll_that_ends_leaves_nobody_watching(groups: Groups):
    member = await groups.join()
    await groups.poll(member, wait_ms=20)
    assert not groups.broker.groups._watchers
    for index in range(2):
        assert not (await groups.broker.partition("t", index))._waiters


async def test_who_begins_to_watch_hears_what_happened_just_before(groups: Groups):
    """A target that is set while a member's heartbeat is being written must not be missed."""
    first = await groups.join()
    watch = partial(groups.broker.groups.watch, GROUP, first.member_id, is_waiting=False)
    before = LongPoll(groups.broker.environment.clock, 10)
    with groups.broker.groups.watching(GROUP, first.member_id, before):
        watch(before)
        assert not await before.wait()
    await groups.join()
    after = LongPoll(groups.broker.environment.clock, 60_000)
    with groups.broker.groups.watching(GROUP, first.member_id, after):
        watch(after)
        assert await after.wait()
