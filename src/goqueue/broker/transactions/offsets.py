"""Offsets that a group commits with a transaction, whoever coordinates which of them.

    whoever is asked ── add these offsets ──> the group's coordinator
    the group's coordinator ── may this producer? ──> the transaction's      adds the group, durably
    the transaction's ── the marker of its end ──> the group's               until it is confirmed

The group holds the offsets back until the marker comes.  A marker may overtake the word of the
transaction's coordinator: then that one is asked once more, or the offsets would wait for the end
of a transaction that is over.

Where one node coordinates both, the group is added and its offsets are written in one step, and
both flushes run at once.  A power loss may take the first alone: then nobody will ever end what the
group holds.  So who begins to coordinate a group, and once a minute, asks all coordinators of
transactions, and drops what none of them knows.
"""

from collections import Counter
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

import msgspec

from goqueue.broker.groups.coordinator import Groups
from goqueue.groups import CommitRequest, PartitionResult
from goqueue.model.errors import NotCoordinator
from goqueue.model.ids import GroupId, NodeId
from goqueue.model.markers import NO_COORDINATOR, Marker
from goqueue.txn import OpenTransaction, ProducerIdentity
from goqueue.txn.errors import ConcurrentTransactions
from goqueue.wire.node_messages import Orphan

ADD_ATTEMPTS_MAX: Final = 3
COUNTED_MAX: Final = 10_000  # producers; beyond that they are counted anew


class OtherCoordinators(Protocol):
    """Of groups and transactions; see `TransactionPeers`."""

    def group_elsewhere(self, group_id: GroupId) -> NodeId | None: ...

    async def add_offsets(
        self,
        node_id: NodeId,
        transactional_id: str,
        who: ProducerIdentity,
        request: CommitRequest,
        *,
        adds_group: bool,
    ) -> tuple[PartitionResult, ...]: ...

    async def admit_group(
        self, transactional_id: str, who: ProducerIdentity, group_id: GroupId, *, adds: bool
    ) -> None: ...

    async def find_orphaned_offsets(
        self, group_id: GroupId, opened: Sequence[OpenTransaction]
    ) -> list[Orphan]: ...


class Coordinator(Protocol):
    """Of the transactions whose shards this node leads."""

    def coordinates(self, transactional_id: str) -> bool: ...

    def hold_offsets(
        self, transactional_id: str, who: ProducerIdentity, request: CommitRequest, *, adds: bool
    ) -> Awaitable[tuple[PartitionResult, ...]]: ...


class TransactionOffsets:
    def __init__(
        self, transactions: Coordinator, groups: Groups, others: OtherCoordinators
    ) -> None:
        self._transactions = transactions
        self._groups = groups
        self._others = others
        # What has happened while another node was asked.
        self._added = EventCounts()
        self._ended = EventCounts()
        groups.on_transaction_ended = self._note_end

    def _note_end(self, group_id: GroupId, producer_id: int) -> None:
        self._ended.add((group_id, producer_id))

    # --- adding -----------------------------------------------------------------------------------

    async def add(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        request: CommitRequest,
        *,
        adds_group: bool,
    ) -> tuple[PartitionResult, ...]:
        """Durable on return; with `adds_group` the group may be new to the transaction."""
        held = msgspec.structs.replace(
            request, producer_id=who.producer_id, producer_epoch=who.epoch
        )
        elsewhere = self._others.group_elsewhere(request.group_id)
        if elsewhere is not None:
            return await self._others.add_offsets(
                elsewhere, transactional_id, who, request, adds_group=adds_group
            )
        if not self._transactions.coordinates(transactional_id):
            await self._admit(transactional_id, who, request.group_id, adds=adds_group)
            self.note_added(held)
            return await self._groups.commit(held)
        return await self._transactions.hold_offsets(transactional_id, who, held, adds=adds_group)

    def note_added(self, held: CommitRequest) -> None:
        """They are going to wait in their group."""
        self._added.add((held.group_id, held.producer_id))

    async def _admit(
        self, transactional_id: str, who: ProducerIdentity, group_id: GroupId, *, adds: bool
    ) -> None:
        """Return when the group may hold offsets of the transaction, in the same step."""
        for _ in range(ADD_ATTEMPTS_MAX):
            host, ended = (
                self._groups.host_of(group_id),
                self._ended.of((group_id, who.producer_id)),
            )
            await self._others.admit_group(transactional_id, who, group_id, adds=adds)
            is_same = self._groups.host_of(group_id) is host
            if is_same and self._ended.of((group_id, who.producer_id)) == ended:
                return
        raise ConcurrentTransactions(f"transactions of {transactional_id!r} end one after another")

    # --- orphans ----------------------------------------------------------------------------------

    async def end_orphans(self, shard: int | None = None) -> None:
        """Drop the offsets, of the groups' shard or of all here, that no coordinator will end."""
        pending: dict[GroupId, list[OpenTransaction]] = {}
        for group_id, producer_id, epoch in sorted(self._groups.pending_transactions(shard)):
            pending.setdefault(group_id, []).append(OpenTransaction(producer_id, epoch))
        for group_id, opened in pending.items():
            await self._end_orphans_of(group_id, opened)

    async def _end_orphans_of(self, group_id: GroupId, opened: list[OpenTransaction]) -> None:
        host = self._groups.host_of(group_id)
        before = {each: self._added.of((group_id, each.producer_id)) for each in opened}
        orphans = await self._others.find_orphaned_offsets(group_id, opened)
        if self._groups.host_of(group_id) is not host:
            raise NotCoordinator(f"group {group_id!r} was coordinated by another node meanwhile")
        for orphan in orphans:
            found = OpenTransaction(orphan.producer_id, orphan.epoch)
            if self._added.of((group_id, found.producer_id)) == before[found]:
                marker = Marker(
                    found.producer_id, found.epoch, 0, commits=False, coordinator=NO_COORDINATOR
                )
                await self._groups.end_transaction(group_id, marker)


class EventCounts:
    """How often something has happened, as far as it is remembered: more is never less."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[GroupId, int]] = Counter()
        self._cleared = 0

    def add(self, key: tuple[GroupId, int]) -> None:
        if len(self._counts) >= COUNTED_MAX:
            self._counts.clear()
            self._cleared += 1
        self._counts[key] += 1

    def of(self, key: tuple[GroupId, int]) -> tuple[int, int]:
        return self._cleared, self._counts[key]
