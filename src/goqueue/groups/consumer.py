"""A group whose coordinator divides the partitions (KIP-848, and every group over HTTP).

Three epochs, each chasing the one before it:

    group epoch ──▶ target epoch ──▶ each member's epoch
    (who is here,   (who should       (what this member
     what they want) have what)        was given so far)

A change bumps the group epoch; a new target is computed for it; then every member walks to the
target on its own, at its own heartbeats, so those whose partitions stay never stop:

                 target changed,
              ┌─ must give some up ──▶ REVOKING ──gave them up──┐
    STABLE ───┤                                                 ├──▶ STABLE, if all is free
       ▲      └─ must not ──────────────────────────────────────┤
       │                                                        └──▶ WAITING, if others still
       └──────────────────── the last one was released ──────────────┘       hold some

A partition also has an *assignment epoch*: that of its owner when it was assigned to the owner.  A
commit of an older epoch than the owner's counts if it is not older than this (KIP-1251): the
response with the new epoch may be on its way, or lost, and nobody else owned the partition since.

Invariant: a partition has at most one owner, which has it in `assigned` or in `revoking`.  It is
assigned again only after its owner released it: by saying so, by leaving, or by being removed.
"""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from goqueue.groups.partition_sets import NO_PARTITIONS, Packed, PartitionSet, pack, unpack
from goqueue.groups.records import (
    ConsumerMember,
    ConsumerMemberRemoved,
    ConsumerMemberSaved,
    ConsumerRecord,
    EpochBumped,
    GroupRecord,
    MemberMoved,
    MemberState,
    Subscription,
    TargetSet,
)
from goqueue.groups.topics import TopicFacts
from goqueue.model.ids import GroupId, Timestamp, TopicIdPartition

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
SNAPSHOT_TARGETS_MAX = 100  # members in one record
STATIC_LEAVE_EPOCH = -2  # gone for a moment: keeps its partitions until its session ends


class ConsumerState(enum.StrEnum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Current(msgspec.Struct, frozen=True):
    """The epoch, state and partitions of a member."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: PartitionSet = NO_PARTITIONS
    revoking: PartitionSet = NO_PARTITIONS

    @property
    def owned(self) -> PartitionSet:
        return self.assigned | self.revoking


NEWCOMER = Current()


class ConsumerGroup:
    """Only `apply` changes it."""

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.target_epoch = 0
        self.assignor = ""
        self.changed_at = Timestamp(0)  # of the epoch; when empty: since when
        self.topics: tuple[TopicFacts, ...] = ()  # subscribed ones, as of the epoch
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, PartitionSet] = {}
        self.current: dict[str, Current] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.owners: dict[TopicIdPartition, str] = {}
        self.assignment_epochs: dict[
            TopicIdPartition, int
        ] = {}  # invariant: of every partition with an owner
        self.subscriptions: Counter[Subscription] = Counter()  # how many members have each
        self.classic_count = 0  # members that speak the classic protocol
        self.settled_count = 0  # members that stand at the target
        self.released_count = (
            0  # partitions that an owner gave up, ever; for those who wait for one
        )

    def copy(self) -> "ConsumerGroup":
        twin = ConsumerGroup.__new__(ConsumerGroup)
        twin.__dict__.update(self.__dict__)
        twin.members = self.members.copy()
        twin.targets = self.targets.copy()
        twin.current = self.current.copy()
        twin.static = self.static.copy()
        twin.owners = self.owners.copy()
        twin.assignment_epochs = self.assignment_epochs.copy()
        twin.subscriptions = self.subscriptions.copy()
        return twin

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_settled(self) -> bool:
        return self.epoch == self.target_epoch and self.settled_count == len(self.members)

    @property
    def state(self) -> ConsumerState:
        if not self.members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        return ConsumerState.STABLE if self.is_settled else ConsumerState.RECONCILING

    def is_at_target(self, current: Current) -> bool:
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    def is_free(self, partition: TopicIdPartition) -> bool:
        return partition not in self.owners

    def has_owned_since(self, member_id: str, partition: TopicIdPartition, epoch: int) -> bool:
        """Does the member own the partition, and did it at this epoch of its own?"""
        return (
            self.owners.get(partition) == member_id and self.assignment_epochs[partition] <= epoch
        )

    # --- the only writer --------------------------------------------------------------------------

    def apply(self, record: ConsumerRecord) -> None:
        match record:
            case ConsumerMemberSaved(member=member):
                self._save(member)
            case ConsumerMemberRemoved(member_id=member_id):
                self._remove(member_id)
            case EpochBumped(epoch=epoch, topics=topics, at=at):
                self.epoch = epoch
                self.topics = topics
                self.changed_at = at
            case TargetSet():
                self._set_target(record)
            case MemberMoved():
                self._move(record)

    def _save(self, member: ConsumerMember) -> None:
        before = self.members.get(member.member_id)
        if before is None:
            self.current[member.member_id] = NEWCOMER
            self.settled_count += self.is_at_target(NEWCOMER)
        else:
            self.classic_count -= before.classic is not None
            self._drop_subscription(before.subscription)
        self.members[member.member_id] = member
        self.classic_count += member.classic is not None
        self.subscriptions[member.subscription] += 1
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.classic_count -= member.classic is not None
        self._drop_subscription(member.subscription)
        current = self.current.pop(member_id)
        self.settled_count -= self.is_at_target(current)
        self._release(current.owned)
        self.targets.pop(member_id, None)
        if member.instance_id is not None and self.static[member.instance_id] == member_id:
            del self.static[member.instance_id]

    def _drop_subscription(self, subscription: Subscription) -> None:
        self.subscriptions[subscription] -= 1
        if not self.subscriptions[subscription]:
            del self.subscriptions[subscription]

    def _set_target(self, record: TargetSet) -> None:
        for member_id, packed in record.targets.items():
            self.targets[member_id] = unpack(packed)
        self.assignor = record.assignor
        if record.epoch != self.target_epoch:
            self.target_epoch = record.epoch
            self.settled_count = sum(map(self.is_at_target, self.current.values()))

    def _move(self, record: MemberMoved) -> None:
        before = self.current[record.member_id]
        after = Current(
            record.epoch,
            record.previous_epoch,
            record.state,
            unpack(record.assigned),
            unpack(record.revoking),
        )
        self._release(before.owned - after.owned)
        given = after.owned - before.owned
        for partition in given:
            assert partition not in self.owners, (
                f"{partition} of {self.owners[partition]} given again"
            )
            self.owners[partition] = record.member_id
        # One that it gave up and was given again in one step counts from now on, too.
        for partition in given | (after.assigned - before.assigned):
            self.assignment_epochs[partition] = record.epoch
        for epoch, packed in record.assignment_epochs.items():
            self.assignment_epochs.update(dict.fromkeys(unpack(packed), epoch))
        self.current[record.member_id] = after
        self.settled_count += self.is_at_target(after) - self.is_at_target(before)

    def _release(self, partitions: PartitionSet) -> None:
        for partition in partitions:
            del self.owners[partition]
            del self.assignment_epochs[partition]
        self.released_count += len(partitions)

    # --- records ----------------------------------------------------------------------------------

    def move_record(self, member_id: str, current: Current) -> MemberMoved:
        return MemberMoved(
            self.group_id,
            member_id,
            current.epoch,
            current.previous_epoch,
            current.state,
            pack(current.assigned),
            pack(current.revoking),
        )

    def target_record(
        self, epoch: int, assignor: str, targets: Mapping[str, PartitionSet]
    ) -> TargetSet:
        """The record of a new target: only the members whose partitions differ from before."""
        changed = {
            member_id: pack(partitions)
            for member_id, partitions in targets.items()
            if self.targets.get(member_id, NO_PARTITIONS) != partitions
        }
        return TargetSet(self.group_id, epoch, assignor, changed)

    def snapshot(self) -> Iterator[GroupRecord]:
        for member in self.members.values():
            yield ConsumerMemberSaved(self.group_id, member)
        yield EpochBumped(self.group_id, self.epoch, self.topics, self.changed_at)
        given = [
            (member_id, partitions) for member_id, partitions in self.targets.items() if partitions
        ]
        for start in range(0, max(1, len(given)), SNAPSHOT_TARGETS_MAX):
            some = given[start : start + SNAPSHOT_TARGETS_MAX]
            targets = {member_id: pack(partitions) for member_id, partitions in some}
            yield TargetSet(self.group_id, self.target_epoch, self.assignor, targets)
        for member_id, current in self.current.items():
            if current != NEWCOMER:
                yield msgspec.structs.replace(
                    self.move_record(member_id, current),
                    assignment_epochs=self._older_epochs(current),
                )

    def _older_epochs(self, current: Current) -> dict[int, Packed]:
        """The partitions whose assignment epoch is not the member's epoch."""
        older: dict[int, list[TopicIdPartition]] = {}
        for partition in current.owned:
            epoch = self.assignment_epochs[partition]
            if epoch != current.epoch:
                older.setdefault(epoch, []).append(partition)
        return {epoch: pack(older[epoch]) for epoch in sorted(older)}
