"""Whether a delayed message is too late: its time to live counts from when it was due.

A message is late when its partition had no leader then, or the server did not run.
"""

from goqueue.delay.batches import due_batch
from goqueue.model import batch as batches
from goqueue.model.ids import Timestamp
from goqueue.queue.header_fields import TTL_MARK, is_outdated


def is_outdated_body(body: bytes, due: int, ttl_ms: int, now: int) -> bool:
    """`ttl_ms` is the topic's, below 1 without one; the message may have its own."""
    if TTL_MARK not in body:
        return 0 < ttl_ms <= now - due
    batch = due_batch([body], timestamp=Timestamp(due), sequence=0)
    (record,) = batches.decode(batch, batches.header_at(batch, 0))
    return is_outdated(record, ttl_ms, now)
