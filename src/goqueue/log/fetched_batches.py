"""What a follower demands of the batches that its leader sent before it writes them.

They are written as they are, so whatever is wrong with them would stay.  The checksum covers
neither the offset nor the leader's epoch of a batch; both must follow from what is there:

    checksum      right
    offsets       go on where the log ends.  Compaction leaves gaps: in a compacted topic, and where
                  the leader says that it was one (`Log.allow_gaps`), they may also jump forward
    epochs        never fall, and are none above that of the leader that was asked
    markers       can be read, since they end transactions here, too

An error leaves the log as it was.
"""

from goqueue.log.reading import ReadableLog
from goqueue.log.segment import RELATIVE_OFFSET_MAX
from goqueue.model import batch as batches
from goqueue.model import markers
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.errors import (
    CorruptBatch,
    FencedLeaderEpoch,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from goqueue.model.ids import Epoch, Offset


def check_fetched(data: Buffer, log: ReadableLog, leader_epoch: Epoch) -> list[BatchHeader]:
    """The headers of `data`, which must be whole batches that continue the log.

    Raises `CorruptBatch`, `UnsupportedBatch`, `OffsetOutOfRange`, `FencedLeaderEpoch` or
    `UnknownLeaderEpoch`.
    """
    headers = batches.verified_headers(data)
    expected, epoch = log.end_offset, log.last_epoch
    for header in headers:
        _check_offsets(header, expected, may_skip=log.may_skip(expected))
        _check_epoch(header, epoch, leader_epoch)
        if header.is_control and header.has_producer:
            markers.decode(data, header)
        expected, epoch = header.next_offset, header.leader_epoch
    return headers


def _check_offsets(header: BatchHeader, expected: Offset, *, may_skip: bool) -> None:
    if header.base_offset < expected:
        raise OffsetOutOfRange(
            f"batch with offsets {header.base_offset} to {header.last_offset}: the log has all"
            f" below {expected} already"
        )
    if header.base_offset > expected and not may_skip:
        raise OffsetOutOfRange(
            f"batch with offsets {header.base_offset} to {header.last_offset}: offset {expected}"
            " is next, and nothing was compacted there"
        )
    if header.last_offset_delta >= RELATIVE_OFFSET_MAX:
        raise CorruptBatch(
            f"batch at offset {header.base_offset} spans {header.last_offset_delta + 1} offsets,"
            f" {RELATIVE_OFFSET_MAX} at most"
        )


def _check_epoch(header: BatchHeader, latest: Epoch, leader_epoch: Epoch) -> None:
    if header.leader_epoch < latest:
        raise FencedLeaderEpoch(
            f"batch at offset {header.base_offset} was written in epoch {header.leader_epoch},"
            f" the one before it in epoch {latest}"
        )
    if header.leader_epoch > leader_epoch:
        raise UnknownLeaderEpoch(
            f"batch at offset {header.base_offset} was written in epoch {header.leader_epoch},"
            f" its leader is at epoch {leader_epoch}"
        )
