"""Members of groups in queue mode, in simulated time."""

import asyncio

import pytest

from goqueue.broker.groups.http_members import GroupMembers
from goqueue.broker.groups.http_requests import JoinAsReader
from goqueue.broker.queues.members import JoinAsWorker
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.groups import HeartbeatRequest, ShareHeartbeatRequest, ShareMember
from goqueue.groups.errors import (
    GroupModeConflict,
    GroupNotEmpty,
    GroupNotFound,
    IllegalGeneration,
    InvalidSessionTimeout,
    UnknownMember,
)
from goqueue.model.errors import TopicNotFound
from goqueue.model.ids import GroupId, Timestamp, TopicName, TopicPartition
from goqueue.model.machine import Decision
from goqueue.queue import Delivered, QueueMember, QueueSettings
from goqueue.queue.records import GroupCreated, MemberJoined, MemberLeft
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests.unit.broker.queue_world import Bench, play, running, values

GROUP = GroupId("workers")
PATIENT = QueueSettings(visibility_ms=3_600_000, backoff_jitter=0)


async def join(bench: Bench, member: str = "", *topics: str, **more: object) -> ShareMember:
    names = tuple(TopicName(topic) for topic in topics or ("jobs",))
    request = JoinAsWorker(group_id=GROUP, topics=names, member_id=member, **more)  # type: ignore[arg-type]
    return await bench.broker.queue_members.join(request)


async def poll(bench: Bench, member: str, wait_ms: int = 0, count: int = 100) -> list[Delivered]:
    request = ReceiveRequest((), GROUP, member, max_messages=count)
    deliveries = await bench.broker.queue_members.poll(request, wait_ms)
    return [message for delivery in deliveries for message in delivery.messages()]


def test_members_share_the_messages_of_several_topics():
    async def scenario(bench: Bench) -> None:
        await bench.broker.create_topic("mails", partitions=2)
        await join(bench, "ann", "jobs", "mails")
        await join(bench, "bob", "jobs", "mails")
        await bench.publish("jobs", b"a", b"b")
        await bench.publish("mails", b"c", b"d")
        found = await poll(bench, "ann", count=3)
        others = await poll(bench, "bob")
        assert sorted(values(found) + values(others)) == [b"a", b"b", b"c", b"d"]
        await bench.ack([*found, *others])
        assert await poll(bench, "ann") == []

    play(scenario)


def test_who_leaves_gives_back_without_a_failure():
    async def scenario(bench: Bench) -> None:
        await join(bench, "ann")
        await join(bench, "bob")
        await bench.publish("jobs", b"a")
        await poll(bench, "ann")
        await bench.broker.queue_members.leave(GROUP, "ann")
        (again,) = await poll(bench, "bob")
        assert again.attempt == 2
        state = bench.queues.groups[GROUP].states[TopicPartition(TopicName("jobs"), 0)]
        assert state.failures(0) == 0
        with pytest.raises(UnknownMember):
            await poll(bench, "ann")

    play(scenario, settings=PATIENT)


def test_the_messages_of_a_dead_member_come_back_as_time_outs():
    async def scenario(bench: Bench) -> None:
        await join(bench, "ann")
        await join(bench, "bob")
        await bench.publish("jobs", b"a")
        assert len(await poll(bench, "ann")) == 1
        waiting = asyncio.create_task(poll(bench, "bob", wait_ms=60_000))  # rule-ok: a member
        await bench.sleep(29)
        assert bench.broker.queue_members.is_worker(GROUP, "ann")
        (again,) = await waiting
        assert (again.attempt, bench.broker.queue_members.is_worker(GROUP, "ann")) == (2, False)
        state = bench.queues.groups[GROUP].states[TopicPartition(TopicName("jobs"), 0)]
        assert (state.failures(0), state.timeouts(0)) == (0, 1)
        with pytest.raises(UnknownMember):
            await bench.broker.queue_members.heartbeat(GROUP, "ann")

    play(scenario, settings=PATIENT)


def test_heartbeats_and_waiting_polls_keep_a_member_alive():
    async def scenario(bench: Bench) -> None:
        ann, bob = await join(bench, "ann"), await join(bench, "bob")
        for _ in range(5):
            await asyncio.gather(poll(bench, "bob", wait_ms=20_000))
            await bench.broker.queue_members.heartbeat(GROUP, "ann", ann.epoch)
        members = bench.broker.queue_members.members(GROUP)
        assert dict(members) == {"ann": ann, "bob": bob}
        await poll(bench, "bob", wait_ms=40_000)
        assert bench.broker.queue_members.members(GROUP) == {"bob": bob}

    play(scenario)


def test_a_session_has_the_length_that_the_member_chose():
    async def scenario(bench: Bench) -> None:
        await join(bench, "ann", session_timeout_ms=6_000)
        await join(bench, "bob", session_timeout_ms=60_000)
        await bench.sleep(7)
        assert list(bench.broker.queue_members.members(GROUP)) == ["bob"]
        with pytest.raises(InvalidSessionTimeout):
            await join(bench, "cleo", session_timeout_ms=1)

    play(scenario)


def test_who_joins_again_fences_its_former_self():
    async def scenario(bench: Bench) -> None:
        before = await join(bench, "ann")
        await bench.publish("jobs", b"a")
        held = await poll(bench, "ann")
        after = await join(bench, "ann")
        assert after.epoch > before.epoch
        members = bench.broker.queue_members
        with pytest.raises(IllegalGeneration):
            await members.heartbeat(GROUP, "ann", before.epoch)
        with pytest.raises(IllegalGeneration):
            await members.poll(ReceiveRequest((), GROUP, "ann"), 0, before.epoch)
        await bench.ack(held)  # it keeps what it holds
        await members.leave(GROUP, "ann")
        assert (await join(bench, "ann")).epoch > after.epoch

    play(scenario)


def test_a_member_that_left_gets_nothing_by_a_poll_that_still_waits():
    async def scenario(bench: Bench) -> None:
        await join(bench, "ann")
        waiting = asyncio.create_task(poll(bench, "ann", wait_ms=10_000))  # rule-ok: a member
        await bench.sleep(1)
        await bench.broker.queue_members.leave(GROUP, "ann")
        await bench.publish("jobs", b"a")
        with pytest.raises(UnknownMember):
            await waiting
        assert values(await bench.receive()) == [b"a"]

    play(scenario)


def test_a_topic_that_goes_away_leaves_the_others():
    async def scenario(bench: Bench) -> None:
        await bench.broker.create_topic("mails", partitions=1)
        with pytest.raises(TopicNotFound):
            await join(bench, "ann", "missing")
        await join(bench, "ann", "jobs", "mails")
        waiting = asyncio.create_task(poll(bench, "ann", wait_ms=10_000))  # rule-ok: a member
        await bench.sleep(1)
        await bench.broker.delete_topic("mails")
        await bench.publish("jobs", b"a")
        found = await waiting or await poll(bench, "ann")
        assert values(found) == [b"a"]

    play(scenario)


def test_members_outlive_the_broker():
    with World(seed=3) as world:

        async def before(environment: Environment) -> None:
            async with running(environment) as bench:
                await bench.broker.create_topic("jobs", partitions=1)
                await bench.queues.configure("workers", PATIENT)
                await join(bench, "ann", client_id="a")
                await join(bench, "bob")
                await bench.broker.queue_members.leave(GROUP, "bob")
                await bench.publish("jobs", b"a", b"b")
                assert len(await poll(bench, "ann", count=1)) == 1
                for host in bench.broker.hosts():
                    await host.take_snapshot()

        async def after(environment: Environment) -> None:
            async with running(environment) as bench:
                (ann,) = bench.broker.queue_members.members(GROUP).values()
                assert (ann.member_id, ann.client_id, ann.epoch) == ("ann", "a", 1)
                assert values(await poll(bench, "ann")) == [b"b"]
                await bench.sleep(40)  # and it is not heard of again
                assert not bench.broker.queue_members.members(GROUP)
                assert {each.attempt for each in await bench.receive()} == {2}

        world.run(before(world.environment("a")))
        world.run(after(world.environment("a")))


@pytest.mark.parametrize("events", [0, 1, 2, 4, 8, 16, 32])
def test_a_power_cut_when_a_session_ends_loses_no_message(events: int):
    """The end of the membership and the return of the messages are in two logs."""
    lost: list[str] = []

    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=1)
            await bench.queues.configure("workers", QueueSettings(visibility_ms=60_000))
            await join(bench, "ann")
            await bench.publish("jobs", b"a")
            assert values(await poll(bench, "ann")) == [b"a"]
            await bench.sleep(29.9)
            while bench.broker.queue_members.is_worker(GROUP, "ann"):
                await bench.sleep(0.0001)
            lost.append("ann")
            await bench.sleep(3_600)

    async def after(environment: Environment) -> None:
        async with running(environment) as bench:
            assert values(await bench.receive(wait_ms=120_000)) == [b"a"]

    with World(seed=events) as world:
        world.start("a", before)
        world.run_until(lambda: bool(lost))
        until = world.loop.events + events
        world.run_until(lambda: world.loop.events >= until)
        world.power_loss("a")
        world.run(after(world.environment("a")))


def test_members_that_the_log_of_queues_kept_are_taken_over_once():
    def former(name: str, generation: int) -> QueueMember:
        return QueueMember(
            member_id=name,
            client_id="c",
            client_host="h",
            topics=(TopicName("jobs"),),
            session_timeout_ms=60_000,
            generation=generation,
            joined_at=Timestamp(0),
        )

    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=1)
            joined = [MemberJoined(GROUP, former(*each)) for each in (("ann", 1), ("bob", 2))]
            records = [GroupCreated(GROUP), *joined, MemberLeft(GROUP, "ann")]
            await bench.queues.registry.submit(lambda _: Decision(records, None))

    async def upgrade(environment: Environment) -> None:
        async with running(environment) as bench:
            members = bench.broker.queue_members
            (bob,) = members.members(GROUP).values()
            assert (bob.member_id, bob.epoch, bob.session_timeout_ms) == ("bob", 2, 60_000)
            assert await members.heartbeat(GROUP, "bob", 2) is bob
            assert (await join(bench, "ann")).epoch == 4, "the third was that ann left"
            await members.leave(GROUP, "bob")

    async def look(environment: Environment) -> None:
        async with running(environment) as bench:
            assert list(bench.broker.queue_members.members(GROUP)) == ["ann"], "not taken again"
            for host in bench.broker.hosts():
                await host.take_snapshot()

    with World(seed=1) as world:
        for story in (before, upgrade, look, look):
            world.run(story(world.environment("a")))


# --- modes ----------------------------------------------------------------------------------------


async def join_as_reader(bench: Bench) -> GroupMembers:
    members = GroupMembers(bench.broker)
    await members.join(
        JoinAsReader(group_id=GROUP, topics=(TopicName("jobs"),), member_id="reader")
    )
    return members


def test_a_group_with_readers_is_no_queue():
    async def scenario(bench: Bench) -> None:
        members = await join_as_reader(bench)
        with pytest.raises(GroupModeConflict, match="streams"):
            await join(bench, "ann")
        with pytest.raises(GroupModeConflict):
            await bench.receive()
        with pytest.raises(GroupModeConflict):
            await share(bench)
        await members.leave(GROUP, "reader", is_done=True)
        await join(bench, "ann")

    play(scenario)


async def share(bench: Bench) -> None:
    request = ShareHeartbeatRequest(
        group_id=GROUP,
        member_id="sharing",
        member_epoch=0,
        subscribed_names=(TopicName("jobs"),),
    )
    await bench.broker.queue_members.share_heartbeat(request)


def test_a_group_with_workers_is_no_stream():
    async def scenario(bench: Bench) -> None:
        await join(bench, "ann")
        await share(bench)  # which is a queue too
        with pytest.raises(GroupModeConflict, match="2 members"):
            await join_as_reader(bench)
        kafka = HeartbeatRequest(
            group_id=GROUP, member_id="new", member_epoch=0, subscribed_names=(TopicName("jobs"),)
        )
        with pytest.raises(GroupModeConflict):
            await bench.broker.groups.consumer_heartbeat(kafka)
        await bench.sleep(40)
        await join_as_reader(bench)

    play(scenario)


def test_a_group_is_listed_described_and_deleted_in_its_mode():
    async def scenario(bench: Bench) -> None:
        groups = bench.broker.queue_groups
        await join(bench, "ann")
        await share(bench)
        await bench.publish("jobs", b"a")
        await bench.ack(await poll(bench, "ann"))
        await bench.sleep(2)  # the floor is committed
        (listing,) = await groups.list_groups()
        assert (listing.group_type, listing.state, listing.member_count) == ("share", "Stable", 2)
        assert await groups.list_groups(types=["consumer"]) == ()
        assert await groups.list_groups(states=["Empty"]) == ()
        assert [each.protocol for each in (await groups.describe(GROUP)).workers] == [
            "http",
            "share",
        ]
        with pytest.raises(GroupNotEmpty):
            await groups.delete(GROUP)
        await bench.sleep(40)
        assert [each.state for each in await groups.list_groups()] == ["Empty"]
        await groups.delete(GROUP)
        await bench.sleep(3)
        assert await groups.list_groups() == ()
        with pytest.raises(GroupNotFound):
            await groups.delete(GROUP)
        assert values(await bench.receive()) == [b"a"]  # a new group, from the beginning

    play(scenario)
