"""Transaction markers: control batches of one record that end a producer's transaction.

key    i16 version 0, i16 type: 0 abort, 1 commit
value  i16 version 0, i32 coordinator epoch
"""

import struct

from goqueue.model import batch as batches
from goqueue.model.batch import CONTROL, TRANSACTIONAL, BatchHeader, Buffer
from goqueue.model.errors import CorruptBatch
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1


def encode(
    producer_id: int, producer_epoch: int, coordinator_epoch: int, *, commits: bool, now: Timestamp
) -> bytearray:
    """A marker, ready to be stamped."""
    key = _KEY.pack(0, _COMMIT if commits else _ABORT)
    record = Record(0, now, key, _VALUE.pack(0, coordinator_epoch))
    return batches.encode(
        [record],
        attributes=TRANSACTIONAL | CONTROL,
        producer=(producer_id, producer_epoch, -1),
    )


def decode(data: Buffer, header: BatchHeader) -> tuple[bool, int] | None:
    """Whether the marker commits, and its coordinator's epoch; None for other control batches."""
    records = batches.decode(data, header)
    if len(records) != 1 or records[0].key is None or records[0].value is None:
        return None
    try:
        _, kind = _KEY.unpack_from(records[0].key)
        _, coordinator_epoch = _VALUE.unpack_from(records[0].value)
    except struct.error as error:
        raise CorruptBatch(f"control record at offset {records[0].offset}: {error}") from error
    return (kind == _COMMIT, coordinator_epoch) if kind in (_ABORT, _COMMIT) else None
