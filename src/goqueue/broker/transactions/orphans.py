"""Transactions that are open in a partition and that no coordinator will end.

A crash leaves one behind when it comes between the flush of its records and that of the partition's
adding: nobody was told that the records are written, and they are aborted.  A damaged log leaves
one behind when it loses a marker.  So the coordinator is asked (`_ask_coordinator`), and only an
answer that is durable counts: a transaction that it committed gets its commit marker once more.
"""

import structlog

from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.log import COORDINATOR_EPOCH, TransactionLog
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.runtime import Clock
from goqueue.txn import OpenTransaction, ProducerIdentity, Transaction
from goqueue.txn.identity import EPOCH_MAX

_log = structlog.get_logger("goqueue.transactions")


class OrphanedTransactions:
    def __init__(self, clock: Clock, log: TransactionLog) -> None:
        self._clock = clock
        self._log = log

    async def end_all(self, partition: Partition) -> None:
        """End all transactions that are open in the partition's log and nowhere else."""
        if not partition.log.producers.open_transactions or self._log.host.failed is not None:
            return
        if not self._ask_coordinator(partition):
            return
        try:
            await self._log.wait_committed()
            for found, committed in self._ask_coordinator(partition):
                self._end(partition, found, committed)
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
            OpenTransaction(producer_id, producer.epoch, first_offset)
            for producer_id, first_offset in sorted(producers.open_transactions.items())
            if (producer := producers.find(producer_id)) is not None
        ]
        at = TopicPartition(TopicName(partition.topic), int(partition.index))
        return self._log.machine.find_orphans(at, opened)

    def _end(
        self, partition: Partition, found: OpenTransaction, committed: Transaction | None
    ) -> None:
        log = _log.bind(
            topic=partition.topic,
            partition=partition.index,
            producer_id=found.producer_id,
            epoch=found.epoch,
            offset=found.first_offset,
        )
        if committed is not None and committed.last_commit is not None:
            log.warning(
                "commit marker was lost and is written again",
                transactional_id=committed.transactional_id,
            )
            marker = ProducerIdentity(found.producer_id, committed.last_commit.marker_epoch)
            self._append_marker(partition, marker, commits=True)
        else:
            log.warning("transaction aborted: no coordinator knows it")
            # A new epoch: a repetition of such a record must not be taken for a duplicate.
            marker = ProducerIdentity(found.producer_id, min(found.epoch + 1, EPOCH_MAX))
            self.abort(partition, marker)

    def abort(self, partition: Partition, marker: ProducerIdentity) -> Offset:
        """Abort what the producer has open in this partition alone; gives the marker's offset."""
        return self._append_marker(partition, marker, commits=False)

    def _append_marker(
        self, partition: Partition, marker: ProducerIdentity, *, commits: bool
    ) -> Offset:
        return partition.append_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.epoch,
            coordinator_epoch=COORDINATOR_EPOCH,
            commits=commits,
            now=self._clock.now(),
        )
