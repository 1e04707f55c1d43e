"""Transactions that are open in a partition and that no coordinator will end.

A crash leaves one behind when it comes between the flush of its records and that of the partition's
adding: nobody was told that the records are written, and they are aborted.  A damaged log leaves
one behind when it loses a marker.  So the coordinator is asked (`_ask_coordinator`), and only an
answer that is durable counts: a transaction that it committed gets its commit marker once more.
"""

import asyncio

import structlog

from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.log import TransactionLog
from goqueue.broker.transactions.participants import end_in_partition
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import PRODUCER_EPOCH_MAX, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import Clock
from goqueue.txn import OpenTransaction, Transaction

_log = structlog.get_logger("goqueue.transactions")


class OrphanedTransactions:
    def __init__(self, clock: Clock, log: TransactionLog) -> None:
        self._clock = clock
        self._log = log

    async def end_all(self, partition: Partition) -> None:
        """End all transactions that are open in the partition's log and nowhere else."""
        if not partition.log.producers.open_transactions or not self._log.is_coordinator:
            return
        if self._log.host.failed is not None:
            return
        if not self._ask_coordinator(partition):
            return
        try:
            await self._log.wait_committed()
            for found, committed in self._ask_coordinator(partition):
                await self.end(partition, found, committed)
        except GoQueueError as error:  # tried again by the coordinator's upkeep
            _log.error(
                "orphaned transaction not ended", partition=str(partition), problem=str(error)
            )

    def _ask_coordinator(
        self, partition: Partition
    ) -> list[tuple[OpenTransaction, Transaction | None]]:
        """As `TransactionMachine.find_orphans`.  The coordinator of all transactions is here."""
        producers = partition.log.producers
        opened = [
            OpenTransaction(producer_id, producer.epoch, producer.ended_at)
            for producer_id in sorted(producers.open_transactions)
            if (producer := producers.find(producer_id)) is not None
        ]
        at = TopicPartition(TopicName(partition.topic), int(partition.index))
        return self._log.ahead.find_orphans(at, opened)

    def end(
        self, partition: Partition, found: OpenTransaction, committed: Transaction | None
    ) -> asyncio.Future[None]:
        """Commit what lacks a marker, abort what nobody knows; done when readers see that."""
        log = _log.bind(
            topic=partition.topic,
            partition=partition.index,
            producer_id=found.producer_id,
            epoch=found.epoch,
            offset=partition.log.producers.open_transactions.get(found.producer_id),
        )
        last = None if committed is None else committed.last_commit
        if committed is not None and last is not None:
            log.warning(
                "commit marker was lost and is written again",
                transactional_id=committed.transactional_id,
            )
        else:
            log.warning("transaction aborted: no coordinator knows it")
        # A new epoch: a repetition of such a record must not be taken for a duplicate.
        epoch = min(found.epoch + 1, PRODUCER_EPOCH_MAX) if last is None else last.marker_epoch
        marker = Marker(
            producer_id=found.producer_id,
            epoch=epoch,
            coordinator_epoch=self._log.host.epoch,
            commits=last is not None,
            is_bumped=epoch > found.epoch,
        )
        return end_in_partition(partition, marker, self._clock)
