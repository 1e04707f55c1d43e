"""Transactions that are open in a partition and that no coordinator will end.

A crash leaves one behind when it comes between the flush of its records and that of the partition's
adding: nobody was told that the records are written, and they are aborted.  A damaged log leaves
one behind when it loses a marker.  So the partition's leader asks the coordinator, here or on
another node, and only an answer that is durable counts: no answer means nothing.  A transaction
that was committed gets its commit marker once more.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import structlog

from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.log import TransactionLog
from goqueue.broker.transactions.participants import end_in_partition
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import PRODUCER_EPOCH_MAX, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import Clock
from goqueue.txn import OpenTransaction
from goqueue.wire.node_messages import Orphan

_log = structlog.get_logger("goqueue.transactions")


class OtherCoordinator(Protocol):
    """The coordinator on another node; see `TransactionPeers`."""

    async def find_orphans(
        self, partition: Partition, opened: Sequence[OpenTransaction]
    ) -> list[Orphan]: ...


class OrphanedTransactions:
    def __init__(self, clock: Clock, log: TransactionLog) -> None:
        self._clock = clock
        self._log = log
        self.elsewhere: OtherCoordinator | None = None  # None while the broker is made

    async def end_all(self, partition: Partition) -> None:
        """End all transactions that are open in the partition's log and nowhere else."""
        if not partition.log.producers.open_transactions or not partition.leads:
            return
        try:
            # All in the step in which the answer holds; then each may take its time.
            ended = [self.end(partition, each) for each in await self._ask(partition)]
            for each in ended:
                await each
        except GoQueueError as error:  # tried again by the coordinator's upkeep
            _log.error(
                "orphaned transaction not ended", partition=str(partition), problem=str(error)
            )

    async def _ask(self, partition: Partition) -> list[Orphan]:
        opened = opened_in(partition)
        if self._log.is_coordinator:
            at = TopicPartition(TopicName(partition.topic), int(partition.index))
            return await self.find(at, opened)
        if self.elsewhere is not None:
            return await self.elsewhere.find_orphans(partition, opened)
        return []

    async def find(self, at: TopicPartition, opened: Sequence[OpenTransaction]) -> list[Orphan]:
        """As `TransactionMachine.find_orphans`, at the coordinator; what is found is durable."""
        if self._log.host.failed is not None or not self._log.ahead.find_orphans(at, opened):
            return []
        await self._log.wait_committed()
        return self.find_now(at, opened)

    def find_now(self, at: TopicPartition, opened: Sequence[OpenTransaction]) -> list[Orphan]:
        """As `find`, of what may not be durable yet."""
        orphans: list[Orphan] = []
        for found, committed in self._log.ahead.find_orphans(at, opened):
            last = None if committed is None else committed.last_commit
            orphan = Orphan(
                found.producer_id,
                found.epoch,
                found.ended_at,
                self._log.host.epoch,
                "" if committed is None else committed.transactional_id,
                -1 if last is None else last.marker_epoch,
            )
            orphans.append(orphan)
        return orphans

    def end(self, partition: Partition, orphan: Orphan) -> asyncio.Future[None]:
        """Commit what lacks a marker, abort what nobody knows; done when readers see that."""
        log = _log.bind(
            topic=partition.topic,
            partition=partition.index,
            producer_id=orphan.producer_id,
            epoch=orphan.epoch,
            offset=partition.log.producers.open_transactions.get(orphan.producer_id),
        )
        commits = orphan.marker_epoch >= 0
        if commits:
            log.warning(
                "commit marker was lost and is written again",
                transactional_id=orphan.committed_by,
            )
        else:
            log.warning("transaction aborted: no coordinator knows it")
        # A new epoch: a repetition of such a record must not be taken for a duplicate.
        epoch = orphan.marker_epoch if commits else min(orphan.epoch + 1, PRODUCER_EPOCH_MAX)
        marker = Marker(
            producer_id=orphan.producer_id,
            epoch=epoch,
            coordinator_epoch=orphan.coordinator_epoch,
            commits=commits,
            is_bumped=epoch > orphan.epoch,
        )
        return end_in_partition(partition, marker, self._clock)


def opened_in(partition: Partition) -> list[OpenTransaction]:
    """As the partition knows them."""
    producers = partition.log.producers
    return [
        OpenTransaction(producer_id, producer.epoch, producer.ended_at)
        for producer_id in sorted(producers.open_transactions)
        if (producer := producers.find(producer_id)) is not None
    ]
