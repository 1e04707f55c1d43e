"""Carrying out what the transaction coordinator decided.

    decided, durable ──> markers into every partition ──> offsets, acks ──> complete

Whatever fails is tried again, for as long as it takes; what a crash interrupts is driven from the
beginning at the next start.  So every step may come twice:

- A second marker finds no open transaction and changes nothing: nothing of the producer's next
  transaction can be in a partition, since that begins only when the completion of this one is
  durable, or written before it in the same log.
- Offsets that are committed a second time must not take back what a group committed since.  A
  plain commit therefore waits (`offsets_settled`) from the decision until the completion is
  durable: after a crash in between, there is none to be taken back.
- Acks that were carried out are pinned no more, and a second time there is nothing to do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from goqueue.broker.groups import Groups
from goqueue.broker.host import Committed
from goqueue.broker.partition import Partition
from goqueue.broker.transaction_acks import TransactionAcks
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    ShuttingDown,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, Offset
from goqueue.runtime import Clock
from goqueue.txn import PendingOffset, ProducerIdentity, TopicPartition, Transaction

COORDINATOR_EPOCH: Final = 0  # of a coordinator that has no peers
RETRY_SECONDS: Final = 1.0
WAIT_SECONDS_MAX: Final = 5.0  # a caller waits that long for readers to see the end

FindPartition = Callable[[str, int], Awaitable[Partition]]

_log = structlog.get_logger("goqueue.transactions")


class Drives:
    """One task for each decided transaction, whoever waits for it."""

    def __init__(
        self,
        clock: Clock,
        groups: Groups,
        acks: TransactionAcks,
        find_partition: FindPartition,
        durable: Callable[[str], Awaitable[None]],
        complete: Callable[[str], Committed],
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._acks = acks
        self._find_partition = find_partition
        self._durable = durable
        self._complete = complete
        self._tasks: asyncio.TaskGroup | None = None
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._moving: dict[str, set[asyncio.Future[None]]] = {}  # group id to what moves offsets

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def stop(self) -> None:
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

    async def carried_out(self, transaction: Transaction) -> bool:
        """Return when readers see the end of the transaction; False when that takes too long."""
        done, _ = await asyncio.wait([self._task(transaction)], timeout=WAIT_SECONDS_MAX)
        return bool(done)

    async def offsets_settled(self, group_id: str) -> None:
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
                committed.add_done_callback(lambda done: _settle(settled, done))
                return

    async def _carry_out(self, transaction: Transaction, marked: set[TopicPartition]) -> None:
        commits = transaction.commits
        missing = sorted(transaction.partitions - marked)
        results = await asyncio.gather(
            *(self._mark(transaction, each, commits, marked) for each in missing),
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

    async def _mark(
        self,
        transaction: Transaction,
        place: TopicPartition,
        commits: bool,
        marked: set[TopicPartition],
    ) -> None:
        topic, index = place
        try:
            partition = await self._find_partition(topic, index)
            marker = partition.append_marker(
                producer_id=transaction.marker_producer_id,
                producer_epoch=transaction.marker_epoch,
                coordinator_epoch=COORDINATOR_EPOCH,
                commits=commits,
                now=self._clock.now(),
            )
            await partition.committed(marker)
        except TopicNotFound:
            pass  # deleted meanwhile: nobody will read it
        except InvalidProducerEpoch as error:
            _log.warning("marker not needed", topic=topic, partition=index, reason=str(error))
        marked.add(place)

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


def _settle(settled: asyncio.Future[None], done: asyncio.Future[None]) -> None:
    """The transaction's completion is durable, or never will be."""
    if settled.done():
        return
    error = ShuttingDown("stopped meanwhile") if done.cancelled() else done.exception()
    if error is None:
        settled.set_result(None)
    else:
        settled.set_exception(error)
        settled.exception()  # nobody need be waiting for it
