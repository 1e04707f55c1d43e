"""Keeps a queue group's ack floors and its committed offsets equal.

    ack floor moves ──(within a second, and at the end)──> offset commit, so that lag tools see it
    somebody else's offset commit ──(before the next receive)──> the ack floor moves there

Our own commits are marked, to distinguish them from those of others.  A commit is adopted once: the
state remembers its time.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from goqueue.broker.queues.group_link import MARK, GroupLink
from goqueue.broker.queues.ledgers import settle_all
from goqueue.broker.queues.state import QueueState
from goqueue.broker.services import BrokerServices
from goqueue.groups import CommittedOffset, OffsetToCommit
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, Offset, TopicPartition
from goqueue.queue import PartitionState

COMMIT_SECONDS: Final = 1.0

_log = structlog.get_logger("goqueue.queues")


class OffsetSync:
    def __init__(
        self, services: BrokerServices, queues: QueueState, coordinator: GroupLink
    ) -> None:
        self._services = services
        self._queues = queues
        self._coordinator = coordinator
        self._committed: dict[PartitionState, Offset] = {}

    async def run(self) -> None:
        while True:
            await self._services.environment.clock.sleep(COMMIT_SECONDS)
            await self.commit_ack_floors()

    # --- our floors to the group's offsets --------------------------------------------------------

    async def commit_ack_floors(self) -> None:
        """Commit every ack floor that moved since it was told last."""
        for group in list(self._queues.groups.values()):
            moved = [
                each
                for each in group.states.values()
                if self._committed.get(each) != each.ack_floor
            ]
            if moved:
                try:
                    if not await self._coordinator.has_streams(group.group_id):
                        await self._commit_group(group.group_id, moved)
                except GoQueueError as error:
                    _log.warning("floors not committed", group=group.group_id, problem=str(error))
        known = set(self._queues.table.states())
        self._committed = {each: floor for each, floor in self._committed.items() if each in known}

    async def _commit_group(self, group_id: GroupId, states: Sequence[PartitionState]) -> None:
        await self.adopt_commits(group_id, states)
        ledgers = (self._queues.ledger_of(each) for each in states)
        # What is told is true also after a power cut.
        await settle_all(ledger for ledger in ledgers if ledger is not None)
        still = [each for each in states if self._queues.state(each.where) is each]
        committed = await self._coordinator.fetch_committed(group_id)
        floors = {each: each.ack_floor for each in still}
        news = [each for each in still if not _matches(committed.get(_place(each)), floors[each])]
        offsets = [
            OffsetToCommit(each.where.topic, each.where.partition, floors[each], metadata=MARK)
            for each in news
        ]
        adopted_at = [each.adopted_at for each in news]
        if not news or await self._coordinator.commit(group_id, offsets, adopted_at):
            self._committed.update(floors)

    # --- the group's offsets to our floors --------------------------------------------------------

    async def committed_offset(
        self, group_id: GroupId, place: TopicPartition
    ) -> CommittedOffset | None:
        return (await self._coordinator.fetch_committed(group_id)).get(place)

    async def adopt_commits(self, group_id: GroupId, states: Iterable[PartitionState]) -> None:
        """Move floors to where somebody else committed; durable before anything is answered.

        Kafka lets anybody commit any offset.  A floor stays within its log, or what is published
        next would be taken for finished.
        """
        committed = await self._coordinator.fetch_committed(group_id)
        if not committed:
            return
        for state in states:
            where = state.where
            found = committed.get(TopicPartition(where.topic, where.partition))
            if found is None or found.metadata == MARK or found.committed_at == state.adopted_at:
                continue
            await self._move(state, found)

    async def _move(self, state: PartitionState, to: CommittedOffset) -> None:
        where = state.where
        log = (await self._services.partition(where.topic, where.partition)).log
        floor = Offset(min(max(to.offset, log.start_offset), log.end_offset))
        if floor != to.offset:
            _log.warning(
                "committed offset is outside of the log, the queue group goes to its nearest end",
                group=where.group_id,
                topic=where.topic,
                partition=where.partition,
                committed=to.offset,
                floor=floor,
            )
        ledger = self._queues.ledger_of(state)
        if ledger is not None:
            ledger.write_through(
                lambda machine: machine.move_ack_floor(where.group_id, floor, to.committed_at)
            )


def _place(state: PartitionState) -> TopicPartition:
    return TopicPartition(state.where.topic, state.where.partition)


def _matches(committed: CommittedOffset | None, floor: Offset) -> bool:
    return committed is not None and committed.offset == floor and committed.metadata == MARK
