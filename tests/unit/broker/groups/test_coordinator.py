"""The coordinator of groups: what it answers is committed, and it gives up its seat whole."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.broker.groups.http_members import GroupMembers
from goqueue.broker.groups.http_requests import JoinAsReader, PollRequest
from goqueue.broker.long_poll import LongPoll
from goqueue.groups import (
    CommitRequest,
    FetchRequest,
    HeartbeatRequest,
    JoinRequest,
    OffsetToCommit,
    SyncRequest,
)
from goqueue.groups.errors import RebalanceInProgress, UnknownMember
from goqueue.groups.records import Protocol
from goqueue.model.errors import GoQueueError, NotCoordinator, StorageFailed
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.runtime import Environment
from goqueue.server.kafka.errors import coordinator_code
from goqueue.testing.sim import SimDisk, World
from tests.unit.broker.brokers import running

GROUP = GroupId("g")
GROUPS_LOG = "/data/logs/__groups/0/*.log"

Story = Callable[[Broker], Awaitable[None]]


def play(story: Story) -> None:
    async def main(environment: Environment) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t", partitions=2)
            await story(broker)

    with World("coordinator") as world:
        world.run(main(world.environment("a")))


def joining(group_id: GroupId = GROUP) -> JoinRequest:
    return JoinRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=(Protocol("range", b""),),
        requires_member_id=False,
    )


def committing(offset: int) -> CommitRequest:
    wanted = OffsetToCommit(TopicName("t"), 0, Offset(offset))
    return CommitRequest(group_id=GROUP, offsets=(wanted,))


async def begin(broker: Broker, work: Awaitable[object]) -> "asyncio.Future[object]":
    """Let it go as far as it gets by itself."""
    begun = asyncio.ensure_future(work)
    await broker.environment.clock.sleep(1)
    assert not begun.done()
    return begun


async def follower(broker: Broker) -> SyncRequest:
    """What the second of two members sends, whose leader has not assigned anything."""
    joined = await asyncio.gather(*(broker.groups.join(joining()) for _ in range(2)))
    behind = next(each for each in joined if each.member_id != each.leader)
    return SyncRequest(
        group_id=GROUP, member_id=behind.member_id, generation=behind.generation, assignments={}
    )


# --- the seat -------------------------------------------------------------------------------------


def test_whoever_waits_is_told_to_look_for_the_coordinator_when_it_resigns():
    async def story(broker: Broker) -> None:
        syncing = await begin(broker, broker.groups.sync(await follower(broker)))
        joined = await begin(broker, broker.groups.join(joining(GroupId("other"))))
        broker.groups.resign()
        for waiting in (syncing, joined):
            with pytest.raises(NotCoordinator) as refused:
                await waiting
            assert coordinator_code(refused.value) is ErrorCode.not_coordinator

    play(story)


def test_a_long_poll_ends_when_the_coordinator_resigns():
    async def story(broker: Broker) -> None:
        members = GroupMembers(broker)
        member = await members.join(JoinAsReader(group_id=GROUP, topics=(TopicName("t"),)))
        wanted = PollRequest(
            group_id=GROUP,
            member_id=member.member_id,
            generation=member.generation,
            limit=10,
            bytes_max=1000,
        )
        first = await members.poll(wanted, None)
        wanted = PollRequest(
            group_id=GROUP,
            member_id=member.member_id,
            generation=first.membership.generation,
            limit=10,
            bytes_max=1000,
        )
        polling = await begin(
            broker, members.poll(wanted, LongPoll(broker.environment.clock, 20_000))
        )
        broker.groups.resign()
        with pytest.raises(NotCoordinator):
            await polling

    play(story)


def test_nobody_is_served_after_the_coordinator_resigned_until_it_has_a_seat_again():
    async def story(broker: Broker) -> None:
        groups, former = broker.groups, broker.groups.host
        await groups.commit(committing(1))
        groups.resign()
        groups.resign()
        verbs: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: groups.join(joining()),
            lambda: groups.commit(committing(2)),
            lambda: groups.fetch([FetchRequest(group_id=GROUP)]),
            lambda: groups.describe(GROUP),
            broker.queue_groups.list_groups,
        )
        for verb in verbs:
            with pytest.raises(NotCoordinator):
                await verb()
        with pytest.raises(NotCoordinator):  # also who has found it before
            await former.read(lambda machine: machine.statistics)
        await broker.coordinate_groups()
        (fetched,) = await groups.fetch([FetchRequest(group_id=GROUP)])
        assert [each.offset for each in fetched.offsets.values() if each] == [1]

    play(story)


def test_a_broker_that_stops_leaves_nobody_waiting():
    left: list[asyncio.Future[object]] = []

    async def story(broker: Broker) -> None:
        left.append(await begin(broker, broker.groups.join(joining())))

    async def main(environment: Environment) -> None:
        async with running(environment) as broker:
            await story(broker)
        with pytest.raises(NotCoordinator):
            await left[0]

    with World("stops") as world:
        world.run(main(world.environment("a")))


# --- what is answered is committed ----------------------------------------------------------------


async def refusal(work: Awaitable[object]) -> GoQueueError:
    with pytest.raises(GoQueueError) as refused:
        await work
    return refused.value


def test_a_refusal_for_a_member_that_is_not_committed_is_never_told(seed: int):
    """The disk fails before it is: clients are told that, and not what nobody will remember."""

    async def main(environment: Environment, disk: SimDisk) -> None:
        async with running(environment) as broker:
            await broker.create_topic("t")
            beat = HeartbeatRequest(
                group_id=GROUP,
                member_id="ann",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_names=(TopicName("t"),),
            )
            await broker.groups.consumer_heartbeat(beat)
            disk.fail_sync(GROUPS_LOG)
            leaving = HeartbeatRequest(group_id=GROUP, member_id="ann", member_epoch=-1)
            left = asyncio.ensure_future(refusal(broker.groups.consumer_heartbeat(leaving)))
            while broker.groups.host.ahead.has_members(GROUP):
                await environment.clock.sleep(0)
            late = HeartbeatRequest(group_id=GROUP, member_id="ann", member_epoch=1)
            for verb in (
                broker.groups.consumer_heartbeat(late),
                broker.groups.heartbeat(GROUP, "ann", generation=1, instance_id=None),
                broker.groups.describe(GROUP),
                broker.queue_groups.delete(GROUP),
                GroupMembers(broker).assignment(GROUP, "ann"),
            ):
                assert isinstance(await refusal(verb), StorageFailed)
            assert isinstance(await left, StorageFailed)

    with World(seed) as world:
        world.run(main(world.environment("a"), world.disk("a")))


def test_a_refusal_is_told_at_once_when_everything_is_committed():
    async def story(broker: Broker) -> None:
        with pytest.raises(UnknownMember):
            await broker.groups.heartbeat(GROUP, "ann", generation=1, instance_id=None)
        sync = await follower(broker)
        asking = await begin(broker, broker.groups.join(joining()))
        with pytest.raises(RebalanceInProgress):
            await broker.groups.heartbeat(
                GROUP, sync.member_id, generation=sync.generation, instance_id=None
            )
        asking.cancel()

    play(story)
