"""A publish that is repeated under the same idempotency key is written once.

The key stands for an idempotent producer of its own: its hash is the producer id, from a range that
is never given out, and a fingerprint of the messages is the sequence of the one batch that each
partition gets.  So a log refuses a repeat as it does a Kafka producer's, in the step that appends,
and recovery rebuilds what it knows from the batches: there is no second record of the keys that
could get lost, or be written without the messages.

    same key, same messages       answered with the first one's offsets, not written again
    same key, other messages      another fingerprint: refused
    a publish that was cut short  partitions that have their batch keep it, the others get theirs

A partition knows the newest `KEYED_PRODUCERS_MAX` keys, for a day.  Messages without a key of their
own go to the partition that the idempotency key hashes to, so that a repeat finds it again;
partitions that are added in between change that.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.log import KEYED_PRODUCER_MIN
from goqueue.model.errors import GoQueueError

KEYED_EPOCH: Final = 0
FINGERPRINT_BITS: Final = 30  # with the number of messages behind it, it stays a positive int32


class IdempotencyKeyReused(GoQueueError):
    """The key was used with other messages."""

    code = "idempotency_key_reused"


def producer_id_of(key: str) -> int:
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return KEYED_PRODUCER_MIN | (int.from_bytes(digest, "big") >> 2)


def fingerprint_of(messages: Sequence[object]) -> int:
    """The same for the same messages, whenever they come."""
    digest = hashlib.blake2b(msgspec.msgpack.encode(messages), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> (32 - FINGERPRINT_BITS)
