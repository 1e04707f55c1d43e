"""Splits the former queue log of all partitions into a ledger for each; once, at the first start.

    read the log ──> write each ledger, durably ──> `LedgersSplit`, durably ──> a snapshot
          ^                     │
          └─────────────────────┘ a crash: what was written is removed, and written again

The record is the commit point: before it only the old log counts, after it only the ledgers.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import structlog

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.partition_store import Partitions
from goqueue.broker.storage.snapshot_file import SnapshotWriter, path_of
from goqueue.cluster import Topic
from goqueue.model.ids import Offset
from goqueue.queue import QueueMachine, QueueRegistry
from goqueue.runtime import Disk

BLOCK_RECORDS: Final = 250
SNAPSHOTS: Final = "snapshots"  # in a ledger's directory

_log = structlog.get_logger("goqueue.queues")


async def split_ledgers(
    disk: Disk,
    partitions: Partitions,
    registry: MachineHost[QueueRegistry],
    topics: Sequence[Topic],
) -> None:
    """Nothing happens when it is done already, or when there is nothing to split."""
    former = registry.ahead.former
    if not former:
        return
    by_name = {topic.name: topic for topic in topics}
    ledgers = [each for each in former.take() if each.topic in by_name]

    def write_all() -> None:
        for topic, index in partitions.directories.stored_ledgers(topics):
            disk.remove_tree(partitions.directories.ledger_directory(topic.name, index))
        for ledger in ledgers:
            topic = by_name[ledger.topic]
            if topic.has_partition(ledger.partition):
                directory = partitions.directories.make_ledger_directory(topic, ledger.partition)
                _write(disk, f"{directory}/{SNAPSHOTS}", ledger)

    await disk.in_background(write_all)
    await registry.submit(lambda each: each.split())
    await registry.take_snapshot()
    _log.info("queue log split into ledgers", ledgers=len(ledgers))


def _write(disk: Disk, directory: str, ledger: QueueMachine) -> None:
    """Blocking."""
    disk.make_directory(directory)
    writer = SnapshotWriter(disk, path_of(directory, Offset(0)), Offset(0))
    for records in _blocks(map(ledger.encode, ledger.snapshot())):
        writer.add(records)
    writer.finish()


def _blocks(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    rest = iter(records)
    while some := list(islice(rest, BLOCK_RECORDS)):
        yield some
