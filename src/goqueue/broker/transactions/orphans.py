"""Transactions that are open in a partition and that no coordinator will end.

A crash leaves one behind when it comes between the flush of its records and that of the partition's
adding: nobody was told that the records are written, and they are aborted.  A damaged log leaves
one behind when it loses a marker.  So the partition's leader asks the coordinators, of all shards:
a log does not say which transactional id wrote to it.  Only answers that are durable count, and
only if all have answered.  A transaction that was committed gets its commit marker once more.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

import structlog

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.log import TransactionLog
from goqueue.broker.transactions.participants import end_in_partition
from goqueue.model.errors import GoQueueError, NotCoordinator
from goqueue.model.ids import PRODUCER_EPOCH_MAX, Epoch, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import Clock
from goqueue.txn import GroupOffsets, OpenTransaction, Transaction, TransactionMachine
from goqueue.wire.node_messages import Orphan

Place = TopicPartition | GroupOffsets  # where something is open

_log = structlog.get_logger("goqueue.transactions")


class AllCoordinators(Protocol):
    """Those on other nodes, and this one; see `TransactionPeers`."""

    async def find_orphans(
        self, partition: Partition, opened: Sequence[OpenTransaction]
    ) -> list[Orphan]: ...


class OrphanedTransactions:
    def __init__(self, clock: Clock, log: TransactionLog) -> None:
        self._clock = clock
        self._log = log
        self.coordinators: AllCoordinators | None = None  # None while the broker is made

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
        if self.coordinators is None:
            return []
        return await self.coordinators.find_orphans(partition, find_open_in(partition))

    async def find(
        self, where: Place, opened: Sequence[OpenTransaction], shards: Sequence[int]
    ) -> list[Orphan]:
        """Those that none of these shards, which this node leads, will end; durably so.

        In the step in which this returns they are so still.  Raises `NotCoordinator`.
        """
        hosts = [self._host(shard) for shard in shards]
        if any(host.failed is not None for host in hosts) or not _find_now(where, opened, hosts):
            return []
        for host in hosts:
            await host.all_committed()
        if hosts != [self._host(shard) for shard in shards]:
            raise NotCoordinator("another node has led a shard of transactions meanwhile")
        return _find_now(where, opened, hosts)

    def _host(self, shard: int) -> MachineHost[TransactionMachine]:
        host = self._log.shards.get(shard)
        if host is None:
            raise NotCoordinator(f"this node does not coordinate shard {shard} of transactions")
        return host

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
        producer = partition.log.producers.find(orphan.producer_id)
        known = 0 if producer is None else max(0, producer.coordinator_epoch)
        marker = Marker(
            producer_id=orphan.producer_id,
            epoch=epoch,
            # Not of a shard that does not know the producer: its own may have a smaller one.
            coordinator_epoch=orphan.coordinator_epoch if commits else known,
            commits=commits,
            is_bumped=epoch > orphan.epoch,
        )
        return end_in_partition(partition, marker, self._clock)


def _find_now(
    where: Place,
    opened: Sequence[OpenTransaction],
    hosts: Iterable[MachineHost[TransactionMachine]],
) -> list[Orphan]:
    """As the machines have it, which may not be durable yet."""
    return agree(_find_in(where, opened, host) for host in hosts)


def _find_in(
    where: Place, opened: Sequence[OpenTransaction], host: MachineHost[TransactionMachine]
) -> list[Orphan]:
    machine = host.ahead
    if isinstance(where, GroupOffsets):
        found = machine.find_orphaned_offsets(where.group_id, opened)
        return [Orphan(each.producer_id, each.epoch, each.ended_at, host.epoch) for each in found]
    return [_orphan(each, by, host.epoch) for each, by in machine.find_orphans(where, opened)]


def _orphan(found: OpenTransaction, committed: Transaction | None, epoch: Epoch) -> Orphan:
    last = None if committed is None else committed.last_commit
    return Orphan(
        found.producer_id,
        found.epoch,
        found.ended_at,
        epoch,
        "" if committed is None else committed.transactional_id,
        -1 if last is None else last.marker_epoch,
    )


def agree(answers: Iterable[list[Orphan]]) -> list[Orphan]:
    """What all shards say that they will not end; a shard that has committed it knows best."""
    found: dict[tuple[int, int, int], Orphan] | None = None
    for answer in answers:
        by_key = {(each.producer_id, each.epoch, each.ended_at): each for each in answer}
        if found is None:
            found = by_key
            continue
        found = {
            key: by_key[key] if by_key[key].marker_epoch >= 0 else each
            for key, each in found.items()
            if key in by_key
        }
    return list((found or {}).values())


def find_open_in(partition: Partition) -> list[OpenTransaction]:
    """As the partition knows them."""
    producers = partition.log.producers
    return [
        OpenTransaction(producer_id, producer.epoch, producer.ended_at)
        for producer_id in sorted(producers.open_transactions)
        if (producer := producers.find(producer_id)) is not None
    ]
