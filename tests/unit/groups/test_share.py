"""Members of share groups against a dumb model: sessions, epochs, restarts, writes that fail."""

import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from goqueue.groups import (
    GroupsConfig,
    ShareMember,
)
from goqueue.groups.errors import (
    FencedMemberEpoch,
    UnknownMember,
)
from goqueue.groups.records import ShareGroupDeleted, ShareMemberRemoved, ShareMemberSaved
from goqueue.groups.share import ShareGroup, copy_records, step
from goqueue.model.errors import DiskFull
from goqueue.model.ids import GroupId
from tests.unit.groups.harness import (
    GROUP,
    Host,
    share_heartbeat,
    share_members,
    topic,
)

ORDERS = topic("orders", 2)
SESSION_MS = 30_000
MEMBERS = st.sampled_from(["ann", "bob", "cleo"])


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
        joined = share_heartbeat(self.host, member)
        self.epoch += 1
        assert joined.member_epoch == self.epoch
        assert joined.assigned == {ORDERS.topic_id: 2}
        self.since[member] = self.epoch
        self.until[member] = self.host.now + SESSION_MS

    @rule(member=MEMBERS, epoch=st.integers(1, 12))
    def stay(self, member: str, epoch: int) -> None:
        if member not in self.until:
            with pytest.raises(UnknownMember):
                share_heartbeat(self.host, member, epoch)
        elif not self.since[member] <= epoch <= self.epoch:
            with pytest.raises(FencedMemberEpoch):
                share_heartbeat(self.host, member, epoch)
        else:
            before = len(self.host.log)
            response = share_heartbeat(self.host, member, epoch)
            assert (response.member_epoch, len(self.host.log)) == (self.epoch, before)
            assert response.assigned or epoch == self.epoch, "who is behind is told"
            self.until[member] = self.host.now + SESSION_MS

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        if member in self.until:
            share_heartbeat(self.host, member, -1)
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
            share_heartbeat(self.host, member)
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
        assert set(share_members(self.host)) == set(self.until)


TestShareWorld = ShareWorld.TestCase
TestShareWorld.settings = settings(max_examples=60, stateful_step_count=30)


def test_the_epoch_counts_how_often_a_member_came_changed_or_went() -> None:
    groups: dict[GroupId, ShareGroup] = {}
    for record in (
        ShareMemberSaved(GROUP, member("ann", 1)),
        ShareMemberSaved(GROUP, member("bob", 2)),
        ShareMemberSaved(GROUP, member("ann", 1)),
        ShareMemberRemoved(GROUP, "bob"),
    ):
        step(groups, record)
    assert (groups[GROUP].epoch, list(groups[GROUP].members)) == (4, ["ann"])
    again: dict[GroupId, ShareGroup] = {}
    for kept in copy_records(groups[GROUP]):
        step(again, kept)
    assert (again[GROUP].epoch, again[GROUP].members) == (4, groups[GROUP].members)
    step(groups, ShareGroupDeleted(GROUP))
    assert groups == {}
    assert copy_records(None) == []


def member(name: str, epoch: int) -> ShareMember:
    return ShareMember(
        member_id=name, client_id="c", client_host="h", subscribed_names=(), epoch=epoch
    )
