"""Segments, indexes, retention and compaction of one log.  No I/O but through `Disk`."""

from goqueue.log.log import Appended, Log
from goqueue.log.reading import Chunk, TimedOffset
from goqueue.log.recovery import Recovery, open_log

__all__ = ["Appended", "Chunk", "Log", "Recovery", "TimedOffset", "open_log"]
