"""ShareGroupHeartbeat: members join, stay, leave, and are told what is new."""

import pytest

from goqueue.groups import GroupsConfig, GroupSettings, ShareHeartbeatRequest
from goqueue.groups.errors import (
    GroupMaxSizeReached,
    GroupModeConflict,
    GroupNotEmpty,
    InvalidGroupRequest,
    InvalidSessionTimeout,
)
from goqueue.model.ids import Timestamp, TopicName
from tests.unit.groups.harness import (
    GROUP,
    SUBSCRIBED,
    ClassicClient,
    ConsumerClient,
    Host,
    share_heartbeat,
    share_members,
    topic,
)

ORDERS = topic("orders", 2)
SESSION_MS = 30_000


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0, members_max=2), ORDERS)


def test_members_are_told_what_is_new_and_only_that(host: Host) -> None:
    joined = share_heartbeat(
        host, "ann", names=(*SUBSCRIBED, TopicName("payments"), TopicName("__groups"))
    )
    assert joined.assigned == {ORDERS.topic_id: 2}
    assert share_heartbeat(host, "ann", 1).assigned is None
    host.change_topics(topic("orders", 3), topic("payments", 1))
    assert sum((share_heartbeat(host, "ann", 1).assigned or {}).values()) == 4
    assert share_heartbeat(host, "ann", 1).assigned is None
    changed = share_heartbeat(host, "ann", 1, SUBSCRIBED)
    assert (changed.member_epoch, len(changed.assigned or ())) == (2, 1)


def test_a_session_is_the_members_own_or_the_groups(host: Host) -> None:
    host.share_settings[GROUP] = GroupSettings(10_000, 2_000)
    assert share_heartbeat(host, "ann").heartbeat_interval_ms == 2_000
    share_heartbeat(host, "bob", session_ms=20_000)
    host.advance(10_000)
    assert share_members(host) == ["bob"]
    host.advance(10_000)
    assert share_members(host) == []


def test_the_host_is_told_who_is_lost(host: Host) -> None:
    share_heartbeat(host, "ann")
    host.now = Timestamp(host.now + SESSION_MS)
    decision = host.machine.on_deadline(host.now)
    assert [(each.group_id, each.member_id) for each in decision.reply.lost] == [(GROUP, "ann")]
    assert host.machine.statistics.total.sessions_expired == 1


def test_what_makes_no_sense_is_refused(host: Host) -> None:
    with pytest.raises(InvalidGroupRequest):
        share_heartbeat(host, "")
    with pytest.raises(InvalidSessionTimeout):
        share_heartbeat(host, "ann", session_ms=1)
    request = ShareHeartbeatRequest(group_id=GROUP, member_id="ann", member_epoch=0)
    with pytest.raises(InvalidGroupRequest):
        host.machine.share_heartbeat(host.now, request)
    share_heartbeat(host, "ann")
    share_heartbeat(host, "bob")
    with pytest.raises(GroupMaxSizeReached):
        share_heartbeat(host, "cleo")
    share_heartbeat(host, "ann")
    with pytest.raises(GroupNotEmpty):
        host.machine.delete_share_group(host.now, GROUP)


def test_a_group_has_members_of_one_mode(host: Host) -> None:
    share_heartbeat(host, "ann")
    with pytest.raises(GroupModeConflict, match="with 1 members"):
        ConsumerClient(host).heartbeat()
    with pytest.raises(GroupModeConflict):
        ClassicClient(host).join()
    share_heartbeat(host, "ann", -1)
    reader = ConsumerClient(host)
    reader.heartbeat()
    with pytest.raises(GroupModeConflict, match="streams"):
        share_heartbeat(host, "ann")
    reader.leave()
    assert share_heartbeat(host, "ann").member_epoch == 3
    share_heartbeat(host, "ann", -1)
    host.run(host.machine.delete_share_group(host.now, GROUP))
    host.restart()
    assert not host.machine.share_groups()
