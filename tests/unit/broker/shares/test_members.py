"""Members of share groups, in simulated time."""

import pytest

from goqueue.groups import ShareHeartbeatRequest, ShareHeartbeatResponse
from goqueue.groups.errors import UnknownMember
from goqueue.model.ids import GroupId, TopicName
from goqueue.queue import QueueSettings
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World
from tests.unit.broker.queue_world import Bench, play, running

GROUP = GroupId("workers")


async def heartbeat(
    bench: Bench, member: str, epoch: int = 0, names: tuple[str, ...] | None = ("jobs",)
) -> ShareHeartbeatResponse:
    request = ShareHeartbeatRequest(
        group_id=GROUP,
        member_id=member,
        member_epoch=epoch,
        subscribed_names=None if names is None else tuple(map(TopicName, names)),
    )
    return await bench.broker.queue_members.share_heartbeat(request)


def members(bench: Bench) -> list[str]:
    return list(bench.broker.queue_members.members(GROUP))


def test_a_silent_member_is_parted_with_and_its_messages_come_back():
    async def scenario(bench: Bench) -> None:
        ann = await heartbeat(bench, "ann")
        await heartbeat(bench, "bob")
        await bench.publish("jobs", b"a", b"b")
        assert len(await bench.receive(consumer="bob")) == 2
        for _ in range(40):
            await bench.sleep(1)
            ann = await heartbeat(bench, "ann", ann.member_epoch, None)
        assert members(bench) == ["ann"]
        with pytest.raises(UnknownMember):
            await heartbeat(bench, "bob", ann.member_epoch, None)
        again = await bench.receive(consumer="ann")
        assert {each.attempt for each in again} == {2}

    play(scenario, settings=QueueSettings(visibility_ms=3_600_000, start="latest"))


def test_what_a_member_that_left_holds_comes_back_when_nothing_more_is_heard_of_it():
    async def scenario(bench: Bench) -> None:
        await heartbeat(bench, "ann")
        await bench.publish("jobs", b"a", b"b")
        bench.broker.queue_members.sessions.open(GROUP, "ann", "a connection that stays")
        assert len(await bench.receive(consumer="ann")) == 2
        await heartbeat(bench, "ann", -1)
        assert not await bench.receive(consumer="bob")
        await bench.sleep(15)
        assert [each.attempt for each in await bench.receive(consumer="bob")] == [2, 2]

    play(scenario, settings=QueueSettings(visibility_ms=10_000, start="latest"))


def test_a_group_says_how_long_a_member_may_be_silent():
    async def scenario(bench: Bench) -> None:
        assert (await heartbeat(bench, "ann")).heartbeat_interval_ms == 2_000
        await bench.sleep(9)
        assert members(bench) == ["ann"]
        await bench.sleep(2)
        assert not members(bench)

    play(scenario, settings=QueueSettings(session_timeout_ms=10_000, heartbeat_interval_ms=2_000))


def test_members_that_go_while_others_are_parted_with_do_no_harm():
    async def scenario(bench: Bench) -> None:
        for number in range(20):
            await heartbeat(bench, f"member {number}")
        await bench.sleep(29.9)
        for number in range(0, 20, 2):
            await heartbeat(bench, f"member {number}", -1)
        await bench.sleep(2)
        assert not members(bench)
        assert (await heartbeat(bench, "ann")).assigned

    play(scenario)


def test_the_brokers_own_topics_are_assigned_to_nobody():
    async def scenario(bench: Bench) -> None:
        joined = await heartbeat(bench, "ann", names=("jobs", "__groups", "missing"))
        assert joined.assigned == {bench.broker.topic("jobs").topic_id: 1}

    play(scenario)


def test_members_outlive_the_broker_with_a_whole_session():
    async def before(environment: Environment) -> None:
        async with running(environment) as bench:
            await bench.broker.create_topic("jobs", partitions=1)
            await bench.queues.configure("workers", QueueSettings(visibility_ms=3_600_000))
            await bench.publish("jobs", b"a")
            await heartbeat(bench, "ann")
            await heartbeat(bench, "bob")
            assert len(await bench.receive(consumer="bob")) == 1

    async def after(environment: Environment) -> None:
        async with running(environment) as bench:
            again = await heartbeat(bench, "ann", 1, None)
            assert (again.member_epoch, again.assigned) == (
                2,
                {bench.broker.topic("jobs").topic_id: 1},
            )
            assert (await heartbeat(bench, "ann", 2, None)).assigned is None
            await bench.sleep(29)
            assert members(bench) == ["ann", "bob"]
            await bench.sleep(2)
            assert members(bench) == []
            assert [each.attempt for each in await bench.receive()] == [2]

    with World(seed=1) as world:
        world.run(before(world.environment("a")))
        world.run(after(world.environment("a")))
