"""A group whose members consume topics as queues: share consumers (KIP-932), workers over HTTP.

    join (epoch 0) ──▶ member ── heartbeat ──▶ member ── leave (epoch -1), or silence ──▶ gone

Every member is assigned all partitions of its topics: the queue divides the messages.  So there is
nothing to agree on, and a heartbeat that changes nothing writes nothing.  The group's epoch counts
how often a member joined, changed or left.  Heartbeats carry the epoch that the member last saw.
An epoch from before it joined belongs to an earlier membership with the same id, and is refused.

A consumer of a queue need not be a member.  The difference: if a member stops responding, its
messages are redelivered at once.  The queue keeps its leases; the host of the machine releases them
when the machine says which members were lost.
"""

from goqueue.groups.records import (
    ShareEpochSet,
    ShareGroupDeleted,
    ShareMember,
    ShareMemberRemoved,
    ShareMemberSaved,
    ShareRecord,
)
from goqueue.model.ids import GroupId


class ShareGroup:
    """Only `apply` changes it."""

    def __init__(self, group_id: GroupId) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}  # in order of coming

    def apply(self, record: ShareMemberSaved | ShareMemberRemoved | ShareEpochSet) -> None:
        match record:
            case ShareMemberSaved(member=member):
                self.members[member.member_id] = member
                self.epoch += 1
            case ShareMemberRemoved(member_id=member_id):
                del self.members[member_id]
                self.epoch += 1
            case ShareEpochSet(epoch=epoch):
                self.epoch = epoch

    def snapshot(self) -> list[ShareRecord]:
        """They stay as they are, whatever becomes of the group."""
        saved = [ShareMemberSaved(self.group_id, each) for each in self.members.values()]
        return [*saved, ShareEpochSet(self.group_id, self.epoch)]


def copy_records(group: ShareGroup | None) -> list[ShareRecord]:
    return [] if group is None else group.snapshot()


def step(groups: dict[GroupId, ShareGroup], record: ShareRecord) -> None:
    """Apply the record to its group, which it may make or end."""
    group_id = record.group_id
    if isinstance(record, ShareGroupDeleted):
        del groups[group_id]
        return
    group = groups.get(group_id)
    if group is None:
        group = groups[group_id] = ShareGroup(group_id)
    group.apply(record)
