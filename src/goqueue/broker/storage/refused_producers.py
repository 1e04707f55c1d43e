"""Producers of a partition whose batch was refused, and would be taken a little later.

A producer has several batches on their way.  If one is refused because the disk is full, or too few
replicas are in sync, and the next one arrives when that is over, its sequence is not the next one:
it is out of order, through no fault of the producer.  Told so, librdkafka raises its epoch, and
numbers everything again that it has not heard of, also what was written: that comes twice.  And of
a producer that is new here the next one would be taken, and the first one never.  So the later
batches are refused for the same reason as the first, and are sent again after it.

That holds for a short time only: a producer that gave the first one up hears what is wrong.
"""

from collections import OrderedDict
from typing import Final

import msgspec

from goqueue.model.batch import BatchHeader
from goqueue.model.errors import DiskFull, NotEnoughReplicas

KEPT_SECONDS: Final = 10.0
PRODUCERS_MAX: Final = 1000
_SEQUENCES: Final = 2**31  # then they begin again with 0

Refusal = DiskFull | NotEnoughReplicas


class _Refused(msgspec.Struct, frozen=True):
    epoch: int
    base_sequence: int  # of the first one
    refusal: Refusal
    at: float  # when the last one was


class RefusedProducers:
    def __init__(self) -> None:
        self._refused: OrderedDict[int, _Refused] = OrderedDict()  # the newest last

    def __bool__(self) -> bool:
        return bool(self._refused)

    def note(self, header: BatchHeader, refusal: Refusal, now: float) -> None:
        """The batch is not appended."""
        if not header.has_producer or header.base_sequence < 0:
            return
        first, before = header.base_sequence, self._refused.get(header.producer_id)
        if (
            before is not None
            and before.epoch == header.producer_epoch
            and _is_after(header, before)
        ):
            first = before.base_sequence
        self._refused[header.producer_id] = _Refused(header.producer_epoch, first, refusal, now)
        self._refused.move_to_end(header.producer_id)
        if len(self._refused) > PRODUCERS_MAX:
            self._refused.popitem(last=False)

    def check(self, header: BatchHeader, now: float) -> None:
        """Raise the refusal of an earlier batch, if this one has to come after it."""
        before = self._refused.get(header.producer_id)
        if before is None:
            return
        if before.epoch != header.producer_epoch or now - before.at > KEPT_SECONDS:
            del self._refused[header.producer_id]
        elif _is_after(header, before):
            raise type(before.refusal)(
                f"an earlier batch of producer {header.producer_id} was refused: {before.refusal}"
            )

    def note_appended(self, header: BatchHeader) -> None:
        """If it is the batch that was refused, the later ones may come."""
        before = self._refused.get(header.producer_id)
        if before is not None and before.base_sequence == header.base_sequence:
            del self._refused[header.producer_id]


def _is_after(header: BatchHeader, before: _Refused) -> bool:
    return 0 < (header.base_sequence - before.base_sequence) % _SEQUENCES < _SEQUENCES // 2
