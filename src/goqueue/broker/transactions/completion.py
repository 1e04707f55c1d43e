"""Carrying out what the transaction coordinator decided.

    decided, durable ──> markers into every partition ──> offsets, acks ──> complete

Whatever fails is tried again, for as long as it takes; what a crash interrupts is driven from the
beginning at the next start.  So every step may come twice:

- A second marker finds no open transaction and changes nothing; or it finds the producer's next
  one, and is not written, since that began elsewhere (`is_its_own`).  Where it is not known where
  a transaction began, the next one waits until the completion of this one is durable.
- Offsets that are committed a second time must not take back what a group committed since.  A
  plain commit therefore waits (`offsets_settled`) from the decision until the completion is
  durable: after a crash in between, there is none to be taken back.
- Acks that were carried out are pinned no more, and a second time there is nothing to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import structlog

from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.machine_host import Committed
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.acks import TransactionAcks
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    ShuttingDown,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, Offset, TopicPartition
from goqueue.runtime import Clock
from goqueue.txn import NO_RECORDS, PendingOffset, ProducerIdentity, Transaction

COORDINATOR_EPOCH: Final = 0  # of a coordinator that has no peers
RETRY_SECONDS: Final = 1.0
WAIT_SECONDS_MAX: Final = 5.0  # a caller waits that long for readers to see the end

FindPartition = Callable[[str, int], Awaitable[Partition]]
OpenedPartition = Callable[[str, int], Partition | None]

_log = structlog.get_logger("goqueue.transactions")


class TransactionCompletion:
    """One task for each decided transaction, whoever waits for it."""

    def __init__(
        self,
        clock: Clock,
        groups: Groups,
        acks: TransactionAcks,
        find_partition: FindPartition,
        opened: OpenedPartition,
        *,
        durable: Callable[[str], Awaitable[None]],
        complete: Callable[[str], Committed],
        finish: Callable[[str], None],
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._acks = acks
        self._find_partition = find_partition
        self._durable = durable
        self._complete = complete
        self._opened = opened
        self._finish = finish
        self._tasks: asyncio.TaskGroup | None = None
        self._stopped = False
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._marking: dict[str, asyncio.Future[None]] = {}  # markers are on their way to disk
        self._moving: dict[str, set[asyncio.Future[None]]] = {}  # group id to what moves offsets

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def stop(self) -> None:
        self._stopped = True
        for task in self._driving.values():
            task.cancel()
        for moving in self._moving.values():
            for settled in moving:
                if not settled.done():
                    settled.set_exception(ShuttingDown("this broker is shutting down"))
                    settled.exception()  # nobody need be waiting for it

    def ensure(self, transaction: Transaction) -> None:
        """Have the decided transaction carried out, some time."""
        task = self._task(transaction)
        assert not task.cancelled()

    def _task(self, transaction: Transaction) -> asyncio.Task[None]:
        transactional_id = transaction.transactional_id
        task = self._driving.get(transactional_id)
        if task is None:
            assert self._tasks is not None, "the broker is not running"
            assert transaction.state.is_prepared
            task = self._tasks.create_task(self._drive(transaction, self._hold(transaction)))
            self._driving[transactional_id] = task
            task.add_done_callback(lambda _: self._driving.pop(transactional_id, None))
        return task

    async def wait_completed(self, transaction: Transaction) -> bool:
        """Return when readers see the end of the transaction; False when that takes too long."""
        waited = self._marking.get(transaction.transactional_id) or self._task(transaction)
        done, _ = await asyncio.wait([waited], timeout=WAIT_SECONDS_MAX)
        return bool(done) and not transaction.state.is_prepared

    # --- the short way: markers alone, of partitions that are open --------------------------------

    async def write_markers(self, transaction: Transaction, *, soon: bool) -> None:
        """Return when the markers of the decided transaction are written, or all is carried out.

        Its decision is durable.  With `soon` they are written in the loop's next turn.
        """
        transactional_id = transaction.transactional_id
        if transactional_id in self._marking:
            return
        if transactional_id in self._driving or not self._needs_markers_only(transaction):
            await self.wait_completed(transaction)
            return
        loop = asyncio.get_running_loop()
        self._marking[transactional_id] = loop.create_future()
        if soon:
            loop.call_soon(self._mark, transaction)
        else:
            self._mark(transaction)

    def marking(self, transactional_id: str) -> asyncio.Future[None] | None:
        """Done when the markers that are on their way are durable; None when none are."""
        return self._marking.get(transactional_id)

    def _needs_markers_only(self, transaction: Transaction) -> bool:
        has_more = (
            transaction.offsets or transaction.transactional_id in self._acks.transactional_ids
        )
        return (
            transaction.first_offsets is not None and not has_more and transaction.attempt is None
        )

    def _mark(self, transaction: Transaction) -> None:
        assert transaction.first_offsets is not None
        written: list[asyncio.Future[None]] = []
        try:
            for (topic, index), start in transaction.first_offsets.items():
                if start != NO_RECORDS:
                    partition = self._opened(topic, index)
                    if partition is None:
                        raise TopicNotFound(f"{topic}-{index} was closed")
                    marker = self._append(partition, transaction, transaction.commits)
                    written.append(partition.committed(marker))
        except GoQueueError:
            self._all_marked(transaction, has_failed=True)
        else:
            self._await_markers(transaction, written)

    def _await_markers(
        self, transaction: Transaction, written: Sequence[asyncio.Future[None]]
    ) -> None:
        outstanding = len(written)
        has_failed = False

        def landed(marker: asyncio.Future[None]) -> None:
            nonlocal outstanding, has_failed
            outstanding -= 1
            has_failed |= marker.cancelled() or marker.exception() is not None
            if not outstanding:
                self._all_marked(transaction, has_failed=has_failed)

        for marker in written:
            marker.add_done_callback(landed)
        if not written:
            self._all_marked(transaction, has_failed=False)

    def _all_marked(self, transaction: Transaction, *, has_failed: bool) -> None:
        durable = self._marking.pop(transaction.transactional_id)
        if not has_failed:
            self._finish(transaction.transactional_id)
        elif not self._stopped:
            self.ensure(transaction)  # the long way tries again
        durable.set_result(None)

    async def wait_offsets_committed(self, group_id: str) -> None:
        """Return when no decided transaction is about to move the group's offsets."""
        while moving := self._moving.get(group_id):
            done, _ = await asyncio.wait(moving)
            for settled in done:
                settled.result()  # raises why it never will be

    def abandon(self, partition: Partition, who: ProducerIdentity) -> Offset:
        """Abort what the producer has open in this partition alone; gives the marker's offset."""
        return partition.append_marker(
            producer_id=who.producer_id,
            producer_epoch=who.epoch,
            coordinator_epoch=COORDINATOR_EPOCH,
            commits=False,
            now=self._clock.now(),
        )

    # --- one transaction --------------------------------------------------------------------------

    def _hold(self, transaction: Transaction) -> asyncio.Future[None]:
        """Let plain commits of the transaction's groups wait for the future given."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not transaction.commits:
            return settled
        for group_id in transaction.offsets:
            self._moving.setdefault(group_id, set()).add(settled)
        groups = list(transaction.offsets)
        settled.add_done_callback(lambda _: self._release(groups, settled))
        return settled

    def _release(self, groups: Sequence[str], settled: asyncio.Future[None]) -> None:
        if settled.exception() is not None:
            return  # after a restart the offsets are committed again: refuse others until then
        for group_id in groups:
            moving = self._moving.get(group_id, set())
            moving.discard(settled)
            if not moving:
                self._moving.pop(group_id, None)

    async def _drive(self, transaction: Transaction, settled: asyncio.Future[None]) -> None:
        transactional_id = transaction.transactional_id
        marked: set[TopicPartition] = set()
        while True:
            try:
                await self._durable(transactional_id)
                await self._carry_out(transaction, marked)
                committed = self._complete(transactional_id)
            except GoQueueError as error:
                _log.error(
                    "transaction not carried out yet",
                    transactional_id=transactional_id,
                    problem=str(error),
                )
                await self._clock.sleep(RETRY_SECONDS)
            else:
                assert committed is not None, "only this drive completes the transaction"
                committed.add_done_callback(lambda done: settle(settled, done))
                return

    async def _carry_out(self, transaction: Transaction, marked: set[TopicPartition]) -> None:
        commits = transaction.commits
        missing = sorted(transaction.partitions - marked)
        results = await asyncio.gather(
            *(self._mark_place(transaction, each, commits, marked) for each in missing),
            return_exceptions=True,
        )
        for result in results:
            if result is not None:
                raise result
        if commits:
            await asyncio.gather(
                *(
                    self._commit_offsets(GroupId(group_id), list(offsets.values()))
                    for group_id, offsets in transaction.offsets.items()
                )
            )
        await self._acks.end(transaction.transactional_id, commits=commits)

    async def _mark_place(
        self,
        transaction: Transaction,
        place: TopicPartition,
        commits: bool,
        marked: set[TopicPartition],
    ) -> None:
        topic, index = place
        try:
            partition = await self._find_partition(topic, index)
            if owns_open_records(transaction, place, partition.log.producers.open_transactions):
                await partition.committed(self._append(partition, transaction, commits))
        except TopicNotFound:
            pass  # deleted meanwhile: nobody will read it
        except InvalidProducerEpoch as error:
            _log.warning("marker not needed", topic=topic, partition=index, reason=str(error))
        marked.add(place)

    def _append(self, partition: Partition, transaction: Transaction, commits: bool) -> Offset:
        return partition.append_marker(
            producer_id=transaction.marker_producer_id,
            producer_epoch=transaction.marker_epoch,
            coordinator_epoch=COORDINATOR_EPOCH,
            commits=commits,
            now=self._clock.now(),
        )

    async def _commit_offsets(self, group_id: GroupId, offsets: Sequence[PendingOffset]) -> None:
        wanted = tuple(
            OffsetToCommit(
                each.topic, each.partition, each.offset, each.leader_epoch, each.metadata
            )
            for each in offsets
        )
        if wanted:
            request = CommitRequest(group_id=group_id, offsets=wanted, is_transactional=True)
            await self._groups.commit(request)


def owns_open_records(
    transaction: Transaction, place: TopicPartition, opened: Mapping[int, Offset]
) -> bool:
    """Whether what its producer has open there belongs to the decided transaction.

    `opened` is where producers have something open, to where that begins.
    """
    if transaction.first_offsets is None:
        return True  # the next one waits until this one's completion is durable
    start = opened.get(transaction.marker_producer_id, NO_RECORDS)
    return start != NO_RECORDS and start == transaction.first_offsets[place]


def settle(settled: asyncio.Future[None], done: asyncio.Future[None]) -> None:
    """The transaction's completion is durable, or never will be."""
    if settled.done():
        return
    error = ShuttingDown("stopped meanwhile") if done.cancelled() else done.exception()
    if error is None:
        settled.set_result(None)
    else:
        settled.set_exception(error)
        settled.exception()  # nobody need be waiting for it
