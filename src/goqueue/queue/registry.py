"""The groups' own log: who is a queue group, whatever its partitions.

Until each partition had a ledger of its own, this was the log of all partitions, too.  Such a log
is read once: `apply` builds a ledger for each partition that it tells of, the host writes them
where they belong, and `split` says so.  A crash before that finds the log as it was, and begins
again; after that the old records of the log are ignored.
"""

from collections.abc import Generator

from goqueue.model.ids import GroupId, Timestamp
from goqueue.model.machine import Decision
from goqueue.queue.former_ledgers import FormerLedgers
from goqueue.queue.group import QueueGroup
from goqueue.queue.group_table import GroupTable
from goqueue.queue.records import (
    Forgotten,
    GroupCreated,
    GroupForgotten,
    GroupRecord,
    LedgersSplit,
    MemberJoined,
    MemberLeft,
    QueueMember,
    QueueRecord,
    decode_any,
    encode,
)
from goqueue.queue.settings import QueueSettings

RegistryRecord = QueueRecord | GroupRecord


class QueueRegistry:
    """The machine of queue groups; `table` is where they are."""

    def __init__(self, table: GroupTable) -> None:
        self.table = table
        self.former = FormerLedgers(table)
        self._is_split = False
        self._begun: set[GroupId] = set()  # those that the log knows to have begun

    # --- deciding ---------------------------------------------------------------------------------

    def take_former_settings(self) -> dict[GroupId, QueueSettings]:
        """What the log said of settings, when it kept them; a snapshot has them up to this call."""
        taken: dict[GroupId, QueueSettings] = {}
        for group in self.table.groups.values():
            if group.former_settings is not None:
                taken[group.group_id] = group.former_settings
                group.former_settings = None
        return taken

    def take_former_members(
        self,
    ) -> tuple[dict[GroupId, int], list[tuple[GroupId, QueueMember]]]:
        """As `take_former_settings`: how often members came or went in each group, and who is."""
        epochs: dict[GroupId, int] = {}
        members: list[tuple[GroupId, QueueMember]] = []
        for group in self.table.groups.values():
            if group.generation:
                epochs[group.group_id] = group.generation
                members += [(group.group_id, each) for each in group.members.values()]
                group.generation, group.members = 0, {}
        return epochs, members

    def forget_group(self, group_id: GroupId) -> Decision[RegistryRecord, None]:
        self.table.group(group_id)
        return Decision((GroupForgotten(group_id),), None)

    def begin(self, group_id: GroupId) -> Decision[RegistryRecord, None]:
        """The group is going to begin in a partition: it stays known until it is deleted."""
        if group_id in self._begun:
            return Decision((), None)
        return Decision((GroupCreated(group_id, has_begun=True),), None)

    def split(self) -> Decision[RegistryRecord, None]:
        """What this log said of partitions is in their ledgers, durably."""
        return Decision((LedgersSplit(),), None)

    def next_deadline(self) -> Timestamp | None:
        return None

    def on_deadline(self, _now: Timestamp) -> Decision[RegistryRecord, None]:
        return Decision((), None)

    # --- applying ---------------------------------------------------------------------------------

    def apply(self, record: RegistryRecord) -> None:
        match record:
            case GroupCreated(group_id=group_id, settings=settings):
                group = self.table.group_of(group_id)
                group.former_settings = settings
                group.generation = max(group.generation, record.generation)
                if record.has_begun:
                    group.has_begun = True
                    self._begun.add(group_id)
            case MemberJoined(group_id=group_id, member=member):
                group = self.table.groups[group_id]
                group.members[member.member_id] = member
                group.generation = max(group.generation, member.generation)
            case MemberLeft(group_id=group_id, member_id=member_id):
                group = self.table.groups[group_id]
                group.members.pop(member_id, None)
                group.generation += 1
            case GroupForgotten(group_id=group_id):
                self.former.forget_group(group_id)
                del self.table.groups[group_id]
                self._begun.discard(group_id)
            case LedgersSplit():
                self._is_split = True
                self.former.clear()
            case Forgotten(topic=topic):
                self.former.forget_topic(topic)
            case _:
                self.former.apply(record)

    # --- keeping ----------------------------------------------------------------------------------

    def snapshot(self) -> Generator[RegistryRecord, None, None]:
        records: list[RegistryRecord] = [LedgersSplit()] if self._is_split else []
        for group in self.table.groups.values():
            records += _snapshot_group(group)
        records += self.former.records()
        return (record for record in records)

    def encode(self, record: RegistryRecord) -> bytes:
        return encode(record)

    def decode(self, data: bytes) -> RegistryRecord:
        return decode_any(data)


def _snapshot_group(group: QueueGroup) -> list[RegistryRecord]:
    head = GroupCreated(group.group_id, group.former_settings, group.generation, group.has_begun)
    return [head, *(MemberJoined(group.group_id, each) for each in group.members.values())]
