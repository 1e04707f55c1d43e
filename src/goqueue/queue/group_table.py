"""The queue groups of a node: what the ledgers of their partitions have in common.

A ledger is one partition's; a group works on many.  Here is what is the group's own: how many
messages its consumers hold in all partitions together, what was counted, and where its settings
are.  The ledgers are handed the table and keep it up to date as they apply their records.  Nothing
of it is written down by a ledger: it follows from what the ledgers say together.
"""

from collections.abc import Iterator
from typing import Final

from goqueue.model.ids import GroupId, TopicPartition
from goqueue.queue.errors import QueueGroupNotFound
from goqueue.queue.group import QueueGroup, SettingsOf
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.records import DeadMessage, Where
from goqueue.queue.settings import QueueSettings

DEFAULTS: Final = QueueSettings()


class GroupTable:
    def __init__(self, settings_of: SettingsOf = lambda _: DEFAULTS) -> None:
        self._settings_of = settings_of
        self.groups: dict[GroupId, QueueGroup] = {}
        # Transaction to where it may have messages.
        self.reservations: dict[str, dict[PartitionState, None]] = {}
        self._with_dead: dict[PartitionState, None] = {}  # those that have dead messages

    # --- asking -----------------------------------------------------------------------------------

    def group(self, group_id: GroupId) -> QueueGroup:
        found = self.groups.get(group_id)
        if found is None:
            raise QueueGroupNotFound(f"there is no queue group {group_id!r}")
        return found

    def state(self, where: Where) -> PartitionState | None:
        group = self.groups.get(where.group_id)
        if group is None:
            return None
        return group.states.get(TopicPartition(where.topic, where.partition))

    def states(self) -> Iterator[PartitionState]:
        return (state for group in self.groups.values() for state in group.states.values())

    def dead(self) -> list[tuple[PartitionState, list[DeadMessage]]]:
        """Messages that are to become dead letters, and are not yet."""
        return [(state, list(state.dead.values())) for state in self._with_dead]

    @property
    def has_dead(self) -> bool:
        return bool(self._with_dead)

    # --- for ledgers, which tell what they apply --------------------------------------------------

    def group_of(self, group_id: GroupId) -> QueueGroup:
        """The group of a state that is taken in."""
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = QueueGroup(group_id, self._settings_of)
        return found

    def put(self, state: PartitionState) -> None:
        """A ledger has taken the state in."""
        group = self.groups[state.where.group_id]
        place = TopicPartition(state.where.topic, state.where.partition)
        group.states[place] = state
        group.has_begun = True
        self.note_restored(state)

    def note_restored(self, state: PartitionState) -> None:
        for transactional_id in state.reserved:
            self.note_reserved(transactional_id, state)
        self.note_dead(state)

    def drop(self, state: PartitionState) -> None:
        """A ledger has let go of the state."""
        group = self.groups[state.where.group_id]
        del group.states[TopicPartition(state.where.topic, state.where.partition)]
        for transactional_id in [
            each for each, reserved in self.reservations.items() if state in reserved
        ]:
            self.note_reservation_ended(transactional_id, state)
        state.clear()
        state.alarm = None
        self._with_dead.pop(state, None)

    def note_dead(self, state: PartitionState) -> None:
        if state.dead:
            self._with_dead[state] = None
        else:
            self._with_dead.pop(state, None)

    def note_reserved(self, transactional_id: str, state: PartitionState) -> None:
        self.reservations.setdefault(transactional_id, {})[state] = None

    def note_reservation_ended(self, transactional_id: str, state: PartitionState) -> None:
        states = self.reservations.get(transactional_id, {})
        states.pop(state, None)
        if not states:
            self.reservations.pop(transactional_id, None)
