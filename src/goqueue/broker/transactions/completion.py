"""Completing the transactions that the coordinator decided.

    DECIDED ──> MARKING ──> MARKED ──────────> COMPLETING ──> COMPLETE
      │           │           │                  │
      │           │           │                  the record of the completion is durable
      │           │           offsets are committed, acks applied; the machine says complete
      │           markers are durable in every partition
      the decision is durable

Most transactions need markers alone, in partitions that are open: those are written without a task
(`write_markers`), and the record of the completion need not be durable.  All others, and those
whose markers could not be written, have a task.  A step that fails is tried again, for as long as
it takes; what a crash interrupts begins again at DECIDED.  So every step may come twice:

- A second marker finds no open transaction and changes nothing; or it finds the producer's next
  one, and is not written, since that began elsewhere (`Transaction.owns_open_records`).  Where it
  is not known where a transaction began, the next one waits until this one is COMPLETE.
- Offsets that are committed a second time must not take back what a group committed since.  A
  plain commit therefore waits (`CommitHolds`) until the transaction is COMPLETE: after a crash
  before that, there is none to be taken back.
- Acks that were applied are reserved no more, and a second time there is nothing to do.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.acks import TransactionAcks
from goqueue.broker.transactions.log import COORDINATOR_EPOCH, TransactionLog, copy_result
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    ShuttingDown,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, Offset, TopicPartition
from goqueue.runtime import Clock
from goqueue.txn import NO_RECORDS, PendingOffset, Transaction

RETRY_SECONDS: Final = 1.0
WAIT_SECONDS_MAX: Final = 5.0  # a caller waits that long for a transaction to be completed

FindPartition = Callable[[str, int], Awaitable[Partition]]
OpenedPartition = Callable[[str, int], Partition | None]

_log = structlog.get_logger("goqueue.transactions")


class EndState(enum.IntEnum):
    DECIDED = 0
    MARKING = 1
    MARKED = 2
    COMPLETING = 3
    COMPLETE = 4


class TransactionEnd:
    """How far the end of one transaction is.  Only `TransactionCompletion` changes it."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.state = EndState.DECIDED
        self.task: asyncio.Task[None] | None = None  # None: its markers are written without one
        self.marked: set[TopicPartition] = set()  # invariant: markers there are durable
        self.offsets_held: asyncio.Future[None] | None = None  # plain commits wait for it
        self.is_stopped = False
        self._changed: asyncio.Future[None] | None = None  # only while there is a waiter

    @property
    def is_near(self) -> bool:
        """Whether it is complete after a flush or two: the next transaction waits for that."""
        return self.task is None or self.state is EndState.COMPLETING

    def move_to(self, state: EndState) -> None:
        assert state > self.state
        self.state = state
        self.wake()

    def wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._changed = None

    async def wait_changed(self) -> None:
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    async def wait_for(self, state: EndState, seconds: float = WAIT_SECONDS_MAX) -> bool:
        """Return when it is that far; False when that takes too long, or the broker stops."""
        try:
            async with asyncio.timeout(seconds):
                while self.state < state and not self.is_stopped:
                    await self.wait_changed()
        except TimeoutError:
            pass
        return self.state >= state


class TransactionCompletion:
    """The ends of all transactions that are decided and not complete."""

    def __init__(
        self,
        clock: Clock,
        log: TransactionLog,
        groups: Groups,
        acks: TransactionAcks,
        find_partition: FindPartition,
        opened: OpenedPartition,
    ) -> None:
        self._clock = clock
        self._log = log
        self._groups = groups
        self._acks = acks
        self._find_partition = find_partition
        self._opened = opened
        self._tasks: asyncio.TaskGroup | None = None
        self._ends: dict[str, TransactionEnd] = {}  # by transactional id
        self._stopped = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Complete, in the background, what was decided before the last stop."""
        self._tasks = tasks
        for transaction in self._log.machine.prepared:
            self.complete(transaction)

    def stop(self) -> None:
        self._stopped = True
        for end in self._ends.values():
            end.is_stopped = True
            end.wake()
            if end.task is not None:
                end.task.cancel()
            if end.offsets_held is not None and not end.offsets_held.done():
                end.offsets_held.set_exception(ShuttingDown("this broker is shutting down"))
                end.offsets_held.exception()  # there may be no waiter

    def find(self, transactional_id: str) -> TransactionEnd | None:
        return self._ends.get(transactional_id)

    async def wait_ready(self, transactional_id: str) -> None:
        """Return when the next transaction may begin, or at once when that is not in sight."""
        while (end := self._ends.get(transactional_id)) and end.is_near and not end.is_stopped:
            await end.wait_changed()

    def complete(self, transaction: Transaction) -> TransactionEnd:
        """Have the decided transaction completed by a task, unless its end is under way."""
        end = self._underway(transaction)
        if end is None:
            end = self._add(transaction)
            self._start_task(end)
        return end

    def complete_unattended(self, transaction: Transaction) -> None:
        """As `complete`, unless the broker stops: the next start completes what is left."""
        if not self._stopped:
            self.complete(transaction)

    def _underway(self, transaction: Transaction) -> TransactionEnd | None:
        """A COMPLETING one is of the transaction before, and the log keeps their order."""
        end = self._ends.get(transaction.transactional_id)
        return end if end is not None and end.state < EndState.COMPLETING else None

    def _add(self, transaction: Transaction) -> TransactionEnd:
        assert transaction.state.is_prepared
        end = self._ends[transaction.transactional_id] = TransactionEnd(transaction)
        return end

    def _remove(self, end: TransactionEnd) -> None:
        end.move_to(EndState.COMPLETE)
        if self._ends.get(end.transaction.transactional_id) is end:
            del self._ends[end.transaction.transactional_id]

    # --- markers alone, in partitions that are open -----------------------------------------------

    async def write_markers(self, transaction: Transaction, *, soon: bool) -> None:
        """Return when the markers of the decided transaction are written, or it is completed.

        Its decision is durable.  With `soon` they are written in the loop's next turn.
        """
        end = self._underway(transaction)
        if end is None and self._needs_markers_only(transaction):
            end = self._add(transaction)
            end.move_to(EndState.MARKING)
            if soon:
                asyncio.get_running_loop().call_soon(self._mark_open_partitions, end)
            else:
                self._mark_open_partitions(end)
        elif end is None or end.task is not None:
            await self.complete(transaction).wait_for(EndState.COMPLETING)

    def _needs_markers_only(self, transaction: Transaction) -> bool:
        has_more = (
            transaction.offsets or transaction.transactional_id in self._acks.transactional_ids
        )
        return (
            transaction.first_offsets is not None and not has_more and transaction.attempt is None
        )

    def _mark_open_partitions(self, end: TransactionEnd) -> None:
        assert end.transaction.first_offsets is not None
        written: list[asyncio.Future[None]] = []
        try:
            for (topic, index), offset in end.transaction.first_offsets.items():
                if offset != NO_RECORDS:
                    partition = self._opened(topic, index)
                    if partition is None:
                        raise TopicNotFound(f"{topic}-{index} was closed")
                    written.append(partition.committed(self._append_marker(partition, end)))
        except GoQueueError:
            self._finish_markers(end, has_failed=True)
        else:
            self._await_markers(end, written)

    def _await_markers(self, end: TransactionEnd, written: Sequence[asyncio.Future[None]]) -> None:
        outstanding = len(written)
        has_failed = False

        def count(marker: asyncio.Future[None]) -> None:
            nonlocal outstanding, has_failed
            outstanding -= 1
            has_failed |= marker.cancelled() or marker.exception() is not None
            if not outstanding:
                self._finish_markers(end, has_failed=has_failed)

        for marker in written:
            marker.add_done_callback(count)
        if not written:
            self._finish_markers(end, has_failed=False)

    def _finish_markers(self, end: TransactionEnd, *, has_failed: bool) -> None:
        if has_failed:
            if not self._stopped:
                self._start_task(end)  # which tries again
            return
        transactional_id = end.transaction.transactional_id
        try:
            self._log.host.defer(
                lambda machine: machine.complete(self._clock.steady(), transactional_id)
            )
        except GoQueueError as error:  # after a crash it is completed once more
            _log.error("completions not written", problem=str(error))
        self._remove(end)

    # --- all the rest: a task for each ------------------------------------------------------------

    def _start_task(self, end: TransactionEnd) -> None:
        assert self._tasks is not None, "the broker is not running"
        transaction = end.transaction
        if transaction.commits and transaction.offsets:
            end.offsets_held = asyncio.get_running_loop().create_future()
            self._groups.commit_holds.hold(transaction.offsets, end.offsets_held)
        end.task = self._tasks.create_task(self._run(end))
        end.wake()

    async def _run(self, end: TransactionEnd) -> None:
        while end.state < EndState.COMPLETING:
            try:
                await self._advance(end)
            except GoQueueError as error:
                _log.error(
                    "transaction not completed yet",
                    transactional_id=end.transaction.transactional_id,
                    state=end.state.name,
                    problem=str(error),
                )
                await self._clock.sleep(RETRY_SECONDS)

    async def _advance(self, end: TransactionEnd) -> None:
        """One step from the end's state to the next."""
        transactional_id = end.transaction.transactional_id
        match end.state:
            case EndState.DECIDED:
                await self._log.wait_durable(transactional_id)
                await self._acks.wait_durable(transactional_id)
                end.move_to(EndState.MARKING)
            case EndState.MARKING:
                await self._mark_partitions(end)
                end.move_to(EndState.MARKED)
            case EndState.MARKED:
                await self._commit_offsets(end.transaction)
                await self._acks.end(transactional_id, commits=end.transaction.commits)
                self._decide_completion(end)
            case EndState.COMPLETING | EndState.COMPLETE:
                raise AssertionError("nothing is left to do")

    async def _mark_partitions(self, end: TransactionEnd) -> None:
        missing = sorted(end.transaction.partitions - end.marked)
        results = await asyncio.gather(
            *(self._mark_partition(end, each) for each in missing), return_exceptions=True
        )
        for result in results:
            if result is not None:
                raise result

    async def _mark_partition(self, end: TransactionEnd, at: TopicPartition) -> None:
        topic, index = at
        try:
            partition = await self._find_partition(topic, index)
            opened = partition.log.producers.open_transactions
            if end.transaction.owns_open_records(at, opened):
                await partition.committed(self._append_marker(partition, end))
        except TopicNotFound:
            pass  # deleted meanwhile: nobody will read it
        except InvalidProducerEpoch as error:
            _log.warning("marker not needed", topic=topic, partition=index, reason=str(error))
        end.marked.add(at)

    def _append_marker(self, partition: Partition, end: TransactionEnd) -> Offset:
        return partition.append_marker(
            producer_id=end.transaction.marker_producer_id,
            producer_epoch=end.transaction.marker_epoch,
            coordinator_epoch=COORDINATOR_EPOCH,
            commits=end.transaction.commits,
            now=self._clock.now(),
        )

    async def _commit_offsets(self, transaction: Transaction) -> None:
        if transaction.commits:
            await asyncio.gather(
                *(
                    self._commit_group(GroupId(group_id), list(offsets.values()))
                    for group_id, offsets in transaction.offsets.items()
                )
            )

    async def _commit_group(self, group_id: GroupId, pending: Sequence[PendingOffset]) -> None:
        offsets = tuple(
            OffsetToCommit(
                each.topic, each.partition, each.offset, each.leader_epoch, each.metadata
            )
            for each in pending
        )
        if offsets:
            request = CommitRequest(group_id=group_id, offsets=offsets, is_transactional=True)
            await self._groups.commit(request)

    def _decide_completion(self, end: TransactionEnd) -> None:
        """The next transaction begins when the record of the completion is durable."""
        transactional_id = end.transaction.transactional_id
        _, committed = self._log.submit(
            transactional_id,
            lambda machine: machine.complete(self._clock.steady(), transactional_id),
        )
        assert committed is not None, "only this task completes the transaction"
        end.move_to(EndState.COMPLETING)
        committed.add_done_callback(lambda done: self._finish(end, done))

    def _finish(self, end: TransactionEnd, done: asyncio.Future[None]) -> None:
        """Also when the log has failed: it refuses all that follows."""
        if end.offsets_held is not None:
            copy_result(done, end.offsets_held)
        self._remove(end)
