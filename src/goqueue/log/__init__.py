"""Segments, indexes, retention and compaction of one log.  No I/O but through `Disk`."""

from goqueue.log.log import Appended, Chunk, Log, TimedOffset
from goqueue.log.recovery import Recovery, open_log

__all__ = ["Appended", "Chunk", "Log", "Recovery", "TimedOffset", "open_log"]
