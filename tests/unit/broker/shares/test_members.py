"""Members of share groups, in simulated time."""

import pytest

from goqueue.broker.shares.members import ShareBeat, ShareBeatRequest
from goqueue.groups.errors import UnknownMember
from goqueue.model.ids import GroupId
from goqueue.queue import QueueSettings
from tests.unit.broker.queue_world import Bench, play

GROUP = GroupId("workers")


async def beat(
    bench: Bench, member: str, epoch: int = 0, names: tuple[str, ...] | None = ("jobs",)
) -> ShareBeat:
    request = ShareBeatRequest(
        group_id=GROUP,
        member_id=member,
        member_epoch=epoch,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_names=names,
    )
    return await bench.broker.shares.beat(request)


def test_a_silent_member_is_parted_with_and_its_messages_come_back():
    async def scenario(bench: Bench) -> None:
        ann = await beat(bench, "ann")
        await beat(bench, "bob")
        await bench.publish("jobs", b"a", b"b")
        assert len(await bench.receive(consumer="bob")) == 2
        for _ in range(40):
            await bench.sleep(1)
            ann = await beat(bench, "ann", ann.member_epoch, None)
        assert list(bench.broker.shares.groups[GROUP].members) == ["ann"]
        with pytest.raises(UnknownMember):
            await beat(bench, "bob", ann.member_epoch, None)
        again = await bench.receive(consumer="ann")
        assert {each.attempt for each in again} == {2}

    play(scenario, settings=QueueSettings(visibility_ms=3_600_000, start="latest"))


def test_what_a_member_that_left_holds_comes_back_when_nothing_more_is_heard_of_it():
    async def scenario(bench: Bench) -> None:
        await beat(bench, "ann")
        await bench.publish("jobs", b"a", b"b")
        bench.broker.shares.sessions.open(GROUP, "ann", "a connection that stays")
        assert len(await bench.receive(consumer="ann")) == 2
        await beat(bench, "ann", -1)
        assert not await bench.receive(consumer="bob")
        await bench.sleep(15)
        assert [each.attempt for each in await bench.receive(consumer="bob")] == [2, 2]

    play(scenario, settings=QueueSettings(visibility_ms=10_000, start="latest"))


def test_a_group_says_how_long_a_member_may_be_silent():
    async def scenario(bench: Bench) -> None:
        assert (await beat(bench, "ann")).heartbeat_interval_ms == 2_000
        await bench.sleep(9)
        assert list(bench.broker.shares.groups[GROUP].members) == ["ann"]
        await bench.sleep(2)
        assert not bench.broker.shares.groups[GROUP].members

    play(scenario, settings=QueueSettings(session_timeout_ms=10_000, heartbeat_interval_ms=2_000))


def test_members_that_go_while_others_are_parted_with_do_no_harm():
    async def scenario(bench: Bench) -> None:
        for number in range(20):
            await beat(bench, f"member {number}")
        await bench.sleep(29.9)
        for number in range(0, 20, 2):
            await beat(bench, f"member {number}", -1)
        await bench.sleep(2)
        assert not bench.broker.shares.groups[GROUP].members
        assert (await beat(bench, "ann")).assigned

    play(scenario)


def test_the_brokers_own_topics_are_assigned_to_nobody():
    async def scenario(bench: Bench) -> None:
        joined = await beat(bench, "ann", names=("jobs", "__groups", "missing"))
        assert joined.assigned == {bench.broker.topic("jobs").topic_id: 1}

    play(scenario)
