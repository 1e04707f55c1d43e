"""Putting rewritten segments in place of the old ones, safely across a crash.

(filled in by compaction)
"""

from goqueue.runtime import Disk


def finish_swap(disk: Disk, directory: str) -> None:
    """Finish or undo what a crash interrupted."""
