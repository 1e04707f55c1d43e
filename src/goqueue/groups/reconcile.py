"""One member's next step towards the target.

`reported` is what the member's heartbeat says it owns, or None if it did not say.  A step never
assigns a partition that another member owns, and never releases one before its owner has reported
that it gave the partition up.
"""

from goqueue.groups.consumer import JOIN_EPOCH, ConsumerGroup, Current
from goqueue.groups.errors import FencedMemberEpoch
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.records import MemberState


def next_step(group: ConsumerGroup, member_id: str, reported: PartitionSet | None) -> Current:
    """The member's state after this heartbeat; the same object if nothing changes."""
    current = group.current[member_id]
    match current.state:
        case MemberState.STABLE if group.is_at_target(current):
            return current
        case MemberState.REVOKING if _still_owns(current.revoking, reported):
            return current
        case MemberState.WAITING if current.epoch == group.target_epoch and not _can_take(
            group, member_id
        ):
            return current
        case _:
            return _towards_target(group, member_id, current, reported)


def _towards_target(
    group: ConsumerGroup, member_id: str, current: Current, reported: PartitionSet | None
) -> Current:
    target = group.targets.get(member_id, NO_PARTITIONS)
    kept = current.assigned & target
    excess = current.assigned - target
    if excess and _still_owns(excess, reported):
        return _advance(current, current.epoch, MemberState.REVOKING, kept, excess)
    wanted = target - kept
    # What it gave up a moment ago is free for it too, if the target changed its mind.
    free = frozenset(
        partition
        for partition in wanted
        if group.is_free(partition) or partition in current.revoking
    )
    state = MemberState.STABLE if free == wanted else MemberState.WAITING
    return _advance(current, group.target_epoch, state, kept | free, NO_PARTITIONS)


def _advance(
    current: Current,
    epoch: int,
    state: MemberState,
    assigned: PartitionSet,
    revoking: PartitionSet,
) -> Current:
    previous = current.epoch if epoch != current.epoch else current.previous_epoch
    after = Current(epoch, max(previous, JOIN_EPOCH), state, assigned, revoking)
    return current if after == current else after


def _still_owns(partitions: PartitionSet, reported: PartitionSet | None) -> bool:
    """A member that reports nothing owns what it owned before."""
    return bool(partitions) and (reported is None or bool(partitions & reported))


def _can_take(group: ConsumerGroup, member_id: str) -> bool:
    """Is any partition that the member waits for free by now?"""
    wanted = group.targets.get(member_id, NO_PARTITIONS) - group.current[member_id].assigned
    return any(map(group.is_free, wanted))


def must_rejoin(group: ConsumerGroup, member_id: str) -> bool:
    """Must a classic member of this group join again?"""
    current = group.current[member_id]
    match current.state:
        case MemberState.STABLE:
            return current.epoch < group.target_epoch
        case MemberState.REVOKING:
            return True
        case MemberState.WAITING:
            return current.epoch < group.target_epoch or _can_take(group, member_id)


def check_epoch(
    current: Current, epoch: int, reported: PartitionSet | None, member_id: str
) -> None:
    """The epoch must be the member's own.

    The one before is let pass if what the member reports is within its assignment: then only the
    answer that told it the new epoch was lost.
    """
    if epoch == current.epoch:
        return
    answer_was_lost = (
        epoch == current.previous_epoch
        and epoch < current.epoch
        and reported is not None
        and reported <= current.assigned
    )
    if not answer_was_lost:
        raise FencedMemberEpoch(
            f"member {member_id!r} sent epoch {epoch}, its epoch is {current.epoch}"
        )
