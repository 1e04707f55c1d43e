"""What the leader of a ledger asks the coordinator of its group, and tells it.

Whether the group has members that read its topics as streams, what is committed for it, and how far
its ledgers are.  Where both are one node, that is a call.  Otherwise the coordinator is asked once
a second while the group is at work, and what it said last stands while it is not reached: a queue
goes on without its coordinator.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.services import BrokerServices
from goqueue.groups import CommitRequest, CommittedOffset, OffsetToCommit
from goqueue.groups.errors import GroupError
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, NodeId, Timestamp, TopicName, TopicPartition
from goqueue.wire.node_messages import Refusal, error_of

MARK: Final = "goqueue-floor"  # metadata of our own commits
FRESH_NS: Final = 1_000_000_000
VIEWS_MAX: Final = 10_000  # groups that are remembered

Committed = Mapping[TopicPartition, CommittedOffset]


class GroupView(msgspec.Struct, frozen=True):
    """A group as its coordinator sees it."""

    refusal: Refusal | None  # why it is not a queue
    committed: list[tuple[TopicName, int, CommittedOffset]]


class ViewGroup(Verb[GroupView], frozen=True):
    name = "view_queue_group"
    reply_type = GroupView

    group_id: GroupId


class CommitFloors(Verb[bool], frozen=True):
    """Gives whether all were committed.

    None is while the group has members that read streams, nor one over somebody else's commit that
    the ledger has not adopted: `adopted_at` are the times of those that it has.
    """

    name = "commit_floors"
    reply_type = bool

    group_id: GroupId
    offsets: list[OffsetToCommit]
    adopted_at: list[Timestamp]


class _Known:
    def __init__(self) -> None:
        self.heard_at = 0  # instant
        self.is_asking = False
        self.refusal: Refusal | None = None
        self.committed: Committed = {}
        self.is_heard = False


class GroupLink:
    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._groups = services.groups
        self._clock = services.environment.clock
        self._known: dict[GroupId, _Known] = {}

    def serve(self, others: OtherNodes) -> None:
        others.serve(ViewGroup, self._view)
        others.serve(CommitFloors, self._commit_floors)

    def _coordinator(self, group_id: GroupId) -> NodeId | None:
        others = self._services.others
        return None if others is None else others.coordinator(group_id)

    # --- asking -----------------------------------------------------------------------------------

    async def refuse_streams(self, group_id: GroupId) -> None:
        """Raise if the group has members that read its topics as streams."""
        node_id = self._coordinator(group_id)
        if node_id is None:
            await self._groups.refuse_members(group_id)
            return
        refusal = (await self._look(node_id, group_id)).refusal
        if refusal is not None:
            raise error_of(refusal)

    async def has_streams(self, group_id: GroupId) -> bool:
        """Whether the group has members that read its topics as streams."""
        node_id = self._coordinator(group_id)
        if node_id is None:
            return self._groups.host_of(group_id).ahead.has_members(group_id)
        return (await self._look(node_id, group_id)).refusal is not None

    async def fetch_committed(self, group_id: GroupId) -> Committed:
        """All that is committed for the group."""
        node_id = self._coordinator(group_id)
        if node_id is None:
            return self._groups.committed_offsets(group_id)
        return (await self._look(node_id, group_id)).committed

    async def _look(self, node_id: NodeId, group_id: GroupId) -> _Known:
        known = self._known.get(group_id)
        if known is None:
            if len(self._known) >= VIEWS_MAX:
                self._known.clear()
            known = self._known[group_id] = _Known()
        is_fresh = self._clock.instant() - known.heard_at < FRESH_NS
        if known.is_heard and (is_fresh or known.is_asking):
            return known
        others = self._services.others
        assert others is not None
        known.is_asking = True
        try:
            view = await others.ask(node_id, ViewGroup(group_id))
        except GoQueueError as error:
            if not known.is_heard or not error.retriable:
                raise
            known.heard_at = self._clock.instant()  # not at once again
            return known
        finally:
            known.is_asking = False
        known.refusal = view.refusal
        known.committed = {
            TopicPartition(topic, partition): offset for topic, partition, offset in view.committed
        }
        known.heard_at, known.is_heard = self._clock.instant(), True
        return known

    # --- telling ----------------------------------------------------------------------------------

    async def commit(
        self,
        group_id: GroupId,
        offsets: Sequence[OffsetToCommit],
        adopted_at: Sequence[Timestamp],
    ) -> bool:
        """Commit ack floors; False when some were not, as `CommitFloors` says."""
        node_id = self._coordinator(group_id)
        if node_id is None:
            await self._groups.commit(CommitRequest(group_id=group_id, offsets=tuple(offsets)))
            return True
        others = self._services.others
        assert others is not None
        verb = CommitFloors(group_id, list(offsets), list(adopted_at))
        is_done = await others.ask(node_id, verb)
        if not is_done:
            self._known.pop(group_id, None)  # there is news
        return is_done

    # --- as the coordinator -----------------------------------------------------------------------

    async def _view(self, _: NodeId, verb: ViewGroup) -> GroupView:
        refusal = None
        try:
            await self._groups.refuse_members(verb.group_id)
        except GroupError as error:
            refusal = Refusal(error.code, str(error))
        committed = [
            (place.topic, place.partition, offset)
            for place, offset in self._groups.committed_offsets(verb.group_id).items()
        ]
        await self._groups.host_of(verb.group_id).wait_settled()
        return GroupView(refusal, committed)

    async def _commit_floors(self, _: NodeId, verb: CommitFloors) -> bool:
        if self._groups.host_of(verb.group_id).ahead.has_members(verb.group_id):
            return False
        committed = self._groups.committed_offsets(verb.group_id)
        mine = tuple(
            offset
            for offset, adopted_at in zip(verb.offsets, verb.adopted_at, strict=True)
            if _is_adopted(
                committed.get(TopicPartition(offset.topic, offset.partition)), adopted_at
            )
        )
        if mine:
            await self._groups.commit(CommitRequest(group_id=verb.group_id, offsets=mine))
        return len(mine) == len(verb.offsets)


def _is_adopted(committed: CommittedOffset | None, adopted_at: Timestamp) -> bool:
    return committed is None or committed.metadata == MARK or committed.committed_at == adopted_at
