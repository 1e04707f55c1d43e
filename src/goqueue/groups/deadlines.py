"""What happens when timers of a group are due, and which timers a group starts with.

All timers of a group that are due together are handled together: many members whose sessions expire
at the same time cost one rebalance.
"""

from goqueue.groups import classic_phases, commits, consumer_members
from goqueue.groups.classic import ClassicGroup
from goqueue.groups.consumer import ConsumerGroup
from goqueue.groups.pending_change import PendingChange
from goqueue.groups.reconcile import must_rejoin
from goqueue.groups.records import ClassicState, MemberState
from goqueue.groups.targets import on_target_deadline
from goqueue.groups.timers import Timer, TimerKind


def on_timers(change: PendingChange, timers: list[Timer]) -> None:
    kinds = {timer.kind for timer in timers}
    if TimerKind.PENDING in kinds:
        pending = [timer.member_id for timer in timers if timer.kind is TimerKind.PENDING]
        change.waiters.pending.difference_update(pending)
    if isinstance(change.group, ConsumerGroup):
        _expire_consumers(change, timers)
    elif change.group is not None:
        silent = [timer.member_id for timer in timers if timer.kind is TimerKind.SESSION]
        classic_phases.expire(change, silent)
        if TimerKind.PENDING in kinds and classic_phases.is_preparing(change):
            classic_phases.complete_if_all_joined(change)
    if TimerKind.JOIN in kinds:
        classic_phases.on_join_deadline(change)
    if TimerKind.TARGET in kinds:
        on_target_deadline(change)
    if TimerKind.SYNC in kinds:
        classic_phases.on_sync_deadline(change)
    if change.group is None:
        change.context.parked_requests.sweep(change.group_id)
    if TimerKind.OFFSETS in kinds:
        commits.expire(change)


def _expire_consumers(change: PendingChange, timers: list[Timer]) -> None:
    group, statistics = change.consumer, change.context.statistics
    silent = {
        timer.member_id
        for timer in timers
        if timer.kind is TimerKind.SESSION and timer.member_id in group.members
    }
    late = {
        timer.member_id
        for timer in timers
        if timer.kind is TimerKind.REVOCATION and _missed_revocation(group, timer.member_id)
    }
    for _ in silent:
        statistics.count_expired_session(change.group_id)
    for _ in late:
        statistics.count_late_revocation(change.group_id)
    if silent or late:
        reason = "session expired" if silent else "revocation timed out"
        going = [member_id for member_id in group.members if member_id in silent | late]
        consumer_members.remove_members(change, going, reason)


def _missed_revocation(group: ConsumerGroup, member_id: str) -> bool:
    """Does the member still own partitions that it was given time to give up?"""
    member = group.members.get(member_id)
    if member is None:
        return False
    if member.classic is not None:
        return must_rejoin(group, member_id)
    return group.current[member_id].state is MemberState.REVOKING


def restart_timers(change: PendingChange) -> None:
    """Restart the sessions and phases of the group, as after a restart of the broker."""
    change.check_offsets_later()
    if isinstance(change.group, ClassicGroup):
        _restart_classic(change, change.group)
    else:
        _restart_consumer(change, change.consumer)


def _restart_classic(change: PendingChange, group: ClassicGroup) -> None:
    for member in group.members.values():
        change.restart_session(member.member_id, member.session_timeout_ms)
    if group.state is ClassicState.PREPARING:
        change.set_timer(TimerKind.JOIN, group.rebalance_timeout_ms)
    elif group.state is ClassicState.COMPLETING:
        change.waiters.unsynced = set(group.members)
        change.set_timer(TimerKind.SYNC, group.rebalance_timeout_ms)


def _restart_consumer(change: PendingChange, group: ConsumerGroup) -> None:
    if group.epoch > group.target_epoch:
        change.set_timer(TimerKind.TARGET, 0)
    for member in group.members.values():
        consumer_members.restart_session(change, member.member_id)
        if group.current[member.member_id].state is MemberState.REVOKING:
            change.set_timer(TimerKind.REVOCATION, member.rebalance_timeout_ms, member.member_id)
