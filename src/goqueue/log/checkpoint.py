"""What recovery may trust without reading: a log's start, and a tail known to be sound.

Everything up to `tail` was synced, indexes included, before the checkpoint was written.  After a
crash only what lies behind it is verified; after a clean stop nothing lies behind it.

Fields that were added later have a default: older checkpoints are read, and older releases pass
over what they do not know.
"""

from typing import Final

import msgspec

from goqueue.log import framed
from goqueue.log.producers import EndedTransaction, Producer
from goqueue.log.segment import SegmentTail
from goqueue.model.ids import Offset
from goqueue.runtime import Disk

KIND: Final = b"C"
VERSION: Final = 1
FILE: Final = "checkpoint"


class ProducersAt(msgspec.Struct, frozen=True, array_like=True):
    """The producers' state as it was before the record at `offset` was written."""

    offset: Offset
    producers: list[Producer] = []
    unsettled: list[EndedTransaction] = []


class Checkpoint(msgspec.Struct, frozen=True):
    start_offset: Offset
    segment: Offset  # base offset of the segment that `tail` describes
    tail: SegmentTail
    cleaned_offset: Offset = Offset(0)  # compaction has seen everything below
    aborted_entries: int = 0  # of the abort index
    producers: list[Producer] = []
    unsettled: list[EndedTransaction] = []
    high_watermark: Offset | None = None  # None: written before it was kept, by a single replica
    gaps_below: Offset = Offset(0)  # offsets below may be missing: a leader compacted them
    earlier: list[ProducersAt] = []  # where the last segments start; see `truncation.py`
    is_cut: bool = False  # what lies behind the tail is to go; see `truncation.py`

    @property
    def epochs_end(self) -> Offset:
        """Leader epochs that start at or after it wrote nothing that is in the log."""
        end = self.tail.next_offset
        return end if self.start_offset < end else Offset(0)


def load(disk: Disk, directory: str) -> Checkpoint | None:
    return framed.load(disk, f"{directory}/{FILE}", KIND, VERSION, Checkpoint)


def store(disk: Disk, directory: str, checkpoint: Checkpoint) -> None:
    framed.store(disk, f"{directory}/{FILE}", KIND, VERSION, checkpoint)
