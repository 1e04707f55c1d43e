"""Members of share groups against a dumb model: sessions, epochs, restarts, writes that fail."""

import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.groups import (
    GroupsConfig,
    GroupSettings,
    ShareHeartbeatRequest,
    ShareHeartbeatResponse,
)
from goqueue.groups.errors import (
    FencedMemberEpoch,
    GroupMaxSizeReached,
    GroupModeConflict,
    GroupNotEmpty,
    InvalidGroupRequest,
    InvalidSessionTimeout,
    UnknownMember,
)
from goqueue.model.errors import DiskFull
from goqueue.model.ids import Timestamp, TopicName
from tests.unit.groups.harness import GROUP, ClassicClient, ConsumerClient, Host, topic

ORDERS = topic("orders", 2)
SESSION_MS = 30_000
NAMES = (TopicName("orders"),)
MEMBERS = st.sampled_from(["ann", "bob", "cleo"])


def heartbeat(
    host: Host,
    member: str,
    epoch: int = 0,
    names: tuple[TopicName, ...] | None = None,
    session_ms: int | None = None,
) -> ShareHeartbeatResponse:
    request = ShareHeartbeatRequest(
        group_id=GROUP,
        member_id=member,
        member_epoch=epoch,
        subscribed_names=NAMES if epoch == 0 and names is None else names,
        session_timeout_ms=session_ms,
    )
    return host.run(host.machine.share_heartbeat(host.now, request))


def members(host: Host) -> list[str]:
    group = host.machine.share_groups().get(GROUP)
    return [] if group is None else list(group.members)


class ShareWorld(RuleBasedStateMachine):
    """The model: until when each member is believed, and since which epoch it is there."""

    def __init__(self) -> None:
        super().__init__()
        self.host = Host(GroupsConfig(offset_check_interval_ms=10**12), ORDERS)
        self.until: dict[str, int] = {}
        self.since: dict[str, int] = {}
        self.polling: set[str] = set()
        self.epoch = 0

    @rule(member=MEMBERS)
    def join(self, member: str) -> None:
        joined = heartbeat(self.host, member)
        self.epoch += 1
        assert joined.member_epoch == self.epoch
        assert joined.assigned == {ORDERS.topic_id: 2}
        self.since[member] = self.epoch
        self.until[member] = self.host.now + SESSION_MS

    @rule(member=MEMBERS, epoch=st.integers(1, 12))
    def stay(self, member: str, epoch: int) -> None:
        if member not in self.until:
            with pytest.raises(UnknownMember):
                heartbeat(self.host, member, epoch)
        elif not self.since[member] <= epoch <= self.epoch:
            with pytest.raises(FencedMemberEpoch):
                heartbeat(self.host, member, epoch)
        else:
            before = len(self.host.log)
            response = heartbeat(self.host, member, epoch)
            assert (response.member_epoch, len(self.host.log)) == (self.epoch, before)
            assert response.assigned or epoch == self.epoch, "who is behind is told"
            self.until[member] = self.host.now + SESSION_MS

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        if member in self.until:
            heartbeat(self.host, member, -1)
            self.gone(member)

    def gone(self, member: str) -> None:
        del self.until[member], self.since[member]
        self.epoch += 1

    @rule(member=MEMBERS)
    def begin_poll(self, member: str) -> None:
        if member in self.until and member not in self.polling:
            self.host.machine.begin_share_poll(self.host.now, GROUP, member)
            self.polling.add(member)

    @rule(member=MEMBERS)
    def end_poll(self, member: str) -> None:
        if member in self.polling:
            self.host.machine.end_share_poll(self.host.now, GROUP, member)
            self.polling.discard(member)
            if member in self.until:
                self.until[member] = self.host.now + SESSION_MS

    @rule(seconds=st.sampled_from([1, 10, 29, 31]))
    def pass_time(self, seconds: int) -> None:
        self.host.advance(seconds * 1_000)
        for member, until in sorted(self.until.items(), key=lambda each: each[1]):
            if until <= self.host.now and member not in self.polling:
                self.gone(member)

    @rule(member=MEMBERS)
    def fail_to_write(self, member: str) -> None:
        self.host.disk_is_full = True
        with contextlib.suppress(DiskFull):
            heartbeat(self.host, member)
        self.host.disk_is_full = False
        self.host.advance(0)
        self.begin_sessions()

    @rule(from_snapshot=st.booleans())
    def restart(self, from_snapshot: bool) -> None:
        if from_snapshot:
            self.host.log = [
                self.host.machine.encode(each) for each in self.host.machine.snapshot()
            ]
        self.host.restart()
        self.polling.clear()
        self.host.advance(0)
        self.begin_sessions()

    def begin_sessions(self) -> None:
        self.until = dict.fromkeys(self.until, self.host.now + SESSION_MS)

    def teardown(self) -> None:
        self.host.check_sliced_snapshots()

    @invariant()
    def members_are_those_who_are_believed(self) -> None:
        assert set(members(self.host)) == set(self.until)


TestShareWorld = ShareWorld.TestCase
TestShareWorld.settings = settings(max_examples=60, stateful_step_count=30)


@pytest.fixture
def host() -> Host:
    return Host(GroupsConfig(initial_rebalance_delay_ms=0, members_max=2), ORDERS)


def test_members_are_told_what_is_new_and_only_that(host: Host) -> None:
    joined = heartbeat(host, "ann", names=(*NAMES, TopicName("payments"), TopicName("__groups")))
    assert joined.assigned == {ORDERS.topic_id: 2}
    assert heartbeat(host, "ann", 1).assigned is None
    host.change_topics(topic("orders", 3), topic("payments", 1))
    assert sum((heartbeat(host, "ann", 1).assigned or {}).values()) == 4
    assert heartbeat(host, "ann", 1).assigned is None
    changed = heartbeat(host, "ann", 1, NAMES)
    assert (changed.member_epoch, len(changed.assigned or ())) == (2, 1)


def test_a_session_is_the_members_own_or_the_groups(host: Host) -> None:
    host.share_settings[GROUP] = GroupSettings(10_000, 2_000)
    assert heartbeat(host, "ann").heartbeat_interval_ms == 2_000
    heartbeat(host, "bob", session_ms=20_000)
    host.advance(10_000)
    assert members(host) == ["bob"]
    host.advance(10_000)
    assert members(host) == []


def test_the_host_is_told_who_is_lost(host: Host) -> None:
    heartbeat(host, "ann")
    host.now = Timestamp(host.now + SESSION_MS)
    decision = host.machine.on_deadline(host.now)
    assert [(each.group_id, each.member_id) for each in decision.reply.lost] == [(GROUP, "ann")]
    assert host.machine.statistics.total.sessions_expired == 1


def test_what_makes_no_sense_is_refused(host: Host) -> None:
    with pytest.raises(InvalidGroupRequest):
        heartbeat(host, "")
    with pytest.raises(InvalidSessionTimeout):
        heartbeat(host, "ann", session_ms=1)
    request = ShareHeartbeatRequest(group_id=GROUP, member_id="ann", member_epoch=0)
    with pytest.raises(InvalidGroupRequest):
        host.machine.share_heartbeat(host.now, request)
    heartbeat(host, "ann")
    heartbeat(host, "bob")
    with pytest.raises(GroupMaxSizeReached):
        heartbeat(host, "cleo")
    heartbeat(host, "ann")
    with pytest.raises(GroupNotEmpty):
        host.machine.delete_share_group(host.now, GROUP)


def test_a_group_has_members_of_one_mode(host: Host) -> None:
    heartbeat(host, "ann")
    with pytest.raises(GroupModeConflict, match="with 1 members"):
        ConsumerClient(host).heartbeat()
    with pytest.raises(GroupModeConflict):
        ClassicClient(host).join()
    heartbeat(host, "ann", -1)
    reader = ConsumerClient(host)
    reader.heartbeat()
    with pytest.raises(GroupModeConflict, match="streams"):
        heartbeat(host, "ann")
    reader.leave()
    assert heartbeat(host, "ann").member_epoch == 3
    heartbeat(host, "ann", -1)
    host.run(host.machine.delete_share_group(host.now, GROUP))
    host.restart()
    assert not host.machine.share_groups()
