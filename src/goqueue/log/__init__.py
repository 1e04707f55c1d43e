"""Segments, indexes, retention and compaction of one log.  No I/O but through `Disk`."""

from goqueue.log.aborted import AbortedRange, AbortIndex, is_aborted
from goqueue.log.inspection import DamagedRange, LogReport, inspect_log
from goqueue.log.log import Appended, CheckpointPoint, Log, Replacement, SyncPoint
from goqueue.log.producers import DELAYS_PRODUCER, KEYED_PRODUCER_MIN, Producer
from goqueue.log.reading import Chunk, TimedOffset
from goqueue.log.recovery import Recovery, open_log
from goqueue.log.replica import Replica
from goqueue.log.sieve import SupersededOffsets
from goqueue.log.sparse_index import OFFSET_INDEX, SparseIndex

__all__ = [
    "DELAYS_PRODUCER",
    "KEYED_PRODUCER_MIN",
    "OFFSET_INDEX",
    "AbortIndex",
    "AbortedRange",
    "Appended",
    "CheckpointPoint",
    "Chunk",
    "DamagedRange",
    "Log",
    "LogReport",
    "Producer",
    "Recovery",
    "Replacement",
    "Replica",
    "SparseIndex",
    "SupersededOffsets",
    "SyncPoint",
    "TimedOffset",
    "inspect_log",
    "is_aborted",
    "open_log",
]
