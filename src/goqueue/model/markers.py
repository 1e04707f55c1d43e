"""Transaction markers: control batches of one record that end a producer's transaction.

key    i16 version 0, i16 type: 0 abort, 1 commit
value  i16 version 0, i32 coordinator epoch, i64 time of the coordinator's decision

Readers take the first two fields of the value, as Apache Kafka writes them.  The time is ours: it
tells the ends of a producer's transactions apart when they have the same epoch.
"""

import struct
from typing import Final

import msgspec

from goqueue.model import batch as batches
from goqueue.model.batch import CONTROL, TRANSACTIONAL, BatchHeader, Buffer
from goqueue.model.errors import CorruptBatch, TransactionCoordinatorFenced
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_TIME = struct.Struct(">q")
UNDECIDED: Final = Timestamp(-1)  # by a coordinator
NO_COORDINATOR: Final = -1  # of what no coordinator knows
_ABORT, _COMMIT = 0, 1


class Marker(msgspec.Struct, frozen=True):
    """What ends a producer's transaction wherever it takes part; Kafka's WriteTxnMarkers."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    commits: bool
    # Whether the epoch is new with this end (KIP-890): then the marker ends what is open with an
    # older one, and never the producer's next transaction.
    is_bumped: bool = False
    decided_at: Timestamp = UNDECIDED
    coordinator: int = 0  # the partition of `__transactions` whose epoch it has

    @property
    def ended_epoch(self) -> int:
        """What is open with this epoch, or an older one, is over."""
        return self.epoch - 1 if self.is_bumped else self.epoch

    def check_coordinator(self, newest_epoch: int) -> None:
        """Raise `TransactionCoordinatorFenced` if a newer one of that partition was heard of."""
        if self.coordinator_epoch < newest_epoch:
            raise TransactionCoordinatorFenced(
                f"coordinator epoch {self.coordinator_epoch}, it is {newest_epoch} now"
            )


def encode(marker: Marker, now: Timestamp) -> bytearray:
    """A marker, ready to be stamped."""
    key = _KEY.pack(0, _COMMIT if marker.commits else _ABORT)
    value = _VALUE.pack(0, marker.coordinator_epoch) + _TIME.pack(marker.decided_at)
    record = Record(0, now, key, value)
    return batches.encode(
        [record],
        attributes=TRANSACTIONAL | CONTROL,
        producer=(marker.producer_id, marker.epoch, -1),
    )


def decode(data: Buffer, header: BatchHeader) -> Marker | None:
    """What a marker says; None for other control batches."""
    records = batches.decode(data, header)
    if len(records) != 1 or records[0].key is None or records[0].value is None:
        return None
    try:
        _, kind = _KEY.unpack_from(records[0].key)
        _, coordinator_epoch = _VALUE.unpack_from(records[0].value)
        decided_at = UNDECIDED
        if len(records[0].value) >= _VALUE.size + _TIME.size:  # or an older version wrote it
            (decided_at,) = _TIME.unpack_from(records[0].value, _VALUE.size)
    except struct.error as error:
        raise CorruptBatch(f"control record at offset {records[0].offset}: {error}") from error
    if kind not in (_ABORT, _COMMIT):
        return None
    producer = header.producer_id, header.producer_epoch
    return Marker(*producer, coordinator_epoch, commits=kind == _COMMIT, decided_at=decided_at)
