"""A queue group's floors and its committed offsets are one thing.

    floor moves ──(within a second, and at the end)──> offset commit, so that lag tools see it
    somebody else's offset commit ──(before the next receive)──> the floor moves there

Our own commits bear a mark, so that the two are told apart.  A commit is heeded once: the ledger
remembers its time.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import structlog

from goqueue.broker.services import Ground
from goqueue.groups import CommitRequest, CommittedOffset, OffsetToCommit
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, Offset
from goqueue.queue.group import Place
from goqueue.queue.partition_state import Ledger
from goqueue.queue.records import Where

if TYPE_CHECKING:
    from goqueue.broker.queues.service import Queues

MARK: Final = "goqueue-floor"  # metadata of our own commits
COMMIT_SECONDS: Final = 1.0

_log = structlog.get_logger("goqueue.queues")


class Floors:
    def __init__(self, ground: Ground, queues: "Queues") -> None:
        self._ground = ground
        self._queues = queues
        self._told: dict[Ledger, Offset] = {}

    async def run(self) -> None:
        while True:
            await self._ground.doors.clock.sleep(COMMIT_SECONDS)
            await self.tell()

    # --- our floors to the group's offsets --------------------------------------------------------

    async def tell(self) -> None:
        """Commit every floor that moved since it was told last."""
        for group in list(self._queues.machine.groups.values()):
            moved = [each for each in group.ledgers.values() if self._told.get(each) != each.floor]
            if moved and not self._ground.groups.host.machine.has_members(group.group_id):
                try:
                    await self._tell_group(group.group_id, moved)
                except GoQueueError as error:
                    _log.warning("floors not committed", group=group.group_id, problem=str(error))
        known = set(self._queues.machine.ledgers())
        self._told = {each: floor for each, floor in self._told.items() if each in known}

    async def _tell_group(self, group_id: GroupId, ledgers: Sequence[Ledger]) -> None:
        await self.heed(group_id, ledgers)
        await self._queues.host.settled()  # what is told is true also after a power cut
        still = [each for each in ledgers if self._queues.machine.ledger(each.where) is each]
        committed = self._ground.groups.committed(group_id)
        floors = {each: each.floor for each in still}
        offsets = tuple(
            OffsetToCommit(each.where.topic, each.where.partition, floor, metadata=MARK)
            for each, floor in floors.items()
            if not _says(committed.get(_place(each)), floor)
        )
        if offsets:
            await self._ground.groups.commit(CommitRequest(group_id=group_id, offsets=offsets))
        self._told.update(floors)

    # --- the group's offsets to our floors --------------------------------------------------------

    def committed_offset(self, group_id: GroupId, place: Place) -> CommittedOffset | None:
        return self._ground.groups.committed(group_id).get(place)

    async def heed(self, group_id: GroupId, ledgers: Iterable[Ledger]) -> None:
        """Move floors to where somebody else committed; durable before anything is answered.

        Kafka lets anybody commit any offset.  A floor stays within its log, or what is published
        next would be taken for finished.
        """
        committed = self._ground.groups.committed(group_id)
        if not committed:
            return
        for ledger in ledgers:
            where = ledger.where
            found = committed.get((where.topic, where.partition))
            if found is None or found.metadata == MARK or found.committed_at == ledger.heeded:
                continue
            await self._move(ledger.where, found)

    async def _move(self, where: Where, to: CommittedOffset) -> None:
        log = (await self._ground.partition(where.topic, where.partition)).log
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
        self._queues.host.submit_now(
            lambda machine: machine.move_floor(where, floor, to.committed_at)
        )


def _place(ledger: Ledger) -> Place:
    return ledger.where.topic, ledger.where.partition


def _says(committed: CommittedOffset | None, floor: Offset) -> bool:
    return committed is not None and committed.offset == floor and committed.metadata == MARK
