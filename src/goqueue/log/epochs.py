"""Which leader wrote which part of a log: (epoch, first offset written in it), growing in both.

Kept in the file `leader-epochs`, written when the log is synced; what was not written yet is
found again in the batches that recovery verifies, since each carries its epoch.
"""

import bisect
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.log import framed
from goqueue.model.ids import NO_EPOCH, Epoch, Offset
from goqueue.runtime import Disk

KIND: Final = b"E"
VERSION: Final = 1
FILE: Final = "leader-epochs"


class EpochStart(msgspec.Struct, frozen=True, array_like=True):
    epoch: Epoch
    start_offset: Offset


class LeaderEpochs:
    def __init__(self, entries: list[EpochStart]) -> None:
        self.entries = entries

    @property
    def latest(self) -> Epoch:
        return self.entries[-1].epoch if self.entries else NO_EPOCH

    def assign(self, epoch: Epoch, offset: Offset) -> bool:
        """Note that `offset` was written in `epoch`; True when that is a new epoch."""
        if epoch <= self.latest:
            return False
        self.cut_end(offset)  # whoever was elected before wrote nothing
        self.entries.append(EpochStart(epoch, offset))
        return True

    def end_offset_for(self, epoch: Epoch, log_end: Offset) -> tuple[Epoch, Offset]:
        """The largest epoch not above `epoch`, and the offset where the next one starts."""
        if epoch == NO_EPOCH or not self.entries:
            return NO_EPOCH, Offset(-1)
        index = bisect.bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        if index == 0:
            return epoch, self.entries[0].start_offset
        end = self.entries[index].start_offset if index < len(self.entries) else log_end
        return self.entries[index - 1].epoch, end

    def epoch_of(self, offset: Offset) -> Epoch:
        index = bisect.bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[index - 1].epoch if index else NO_EPOCH

    def cut_end(self, offset: Offset) -> bool:
        """Forget epochs that start at or after `offset`; True when there was one."""
        before = len(self.entries)
        while self.entries and self.entries[-1].start_offset >= offset:
            self.entries.pop()
        return len(self.entries) < before

    def cut_start(self, offset: Offset) -> None:
        """Forget epochs that end at or before `offset`."""
        while len(self.entries) > 1 and self.entries[1].start_offset <= offset:
            self.entries.pop(0)
        if self.entries and self.entries[0].start_offset < offset:
            self.entries[0] = EpochStart(self.entries[0].epoch, offset)


def where_to_truncate(
    own: LeaderEpochs, own_end: Offset, leader_epoch: Epoch, leader_end: Offset
) -> Offset:
    """Where a follower cuts its log when its leader has something else (KIP-101, KIP-279).

    The leader says where its log ends for the largest epoch that it has and that is not above the
    follower's last one (`end_offset_for`).  Up to there the logs are the same, if the follower
    knows that epoch; if not, only what it has of older ones may be, and it asks again.
    """
    if leader_epoch == NO_EPOCH or not own.entries:  # no record that could tell them apart
        return min(own_end, max(leader_end, Offset(0)))
    _, known_end = own.end_offset_for(leader_epoch, own_end)
    return min(known_end, leader_end)


def load(disk: Disk, directory: str) -> list[EpochStart]:
    """Raises `CorruptData`."""
    found = framed.load(disk, f"{directory}/{FILE}", KIND, VERSION, list[EpochStart])
    return found or []


def store(disk: Disk, directory: str, entries: Sequence[EpochStart]) -> None:
    framed.store(disk, f"{directory}/{FILE}", KIND, VERSION, entries)
