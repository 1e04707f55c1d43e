"""Messages that bring a trace id of their own: W3C `traceparent`, a header of the record.

One look at the bytes of a batch says whether a record may have one; only then, and for batches that
are compressed, is it kept until the history takes its records apart, on a thread.  A bound says how
much that may be: what is beyond it is found by its place, and not by its trace id.
"""

from collections.abc import Sequence
from typing import Final

from goqueue.model import batch as batches
from goqueue.model.batch import CODEC_AT, CODEC_MASK, RecordReader, record_block
from goqueue.model.errors import GoQueueError
from goqueue.model.header_marks import HeaderMarks
from goqueue.trace.events import Step, TraceEvent
from goqueue.trace.ids import TRACEPARENT, parse_traceparent

KEPT_BYTES_MAX: Final = 4 * 1024 * 1024

_MARKS: Final = HeaderMarks(TRACEPARENT)

Batch = tuple[TraceEvent, bytes]  # topic and partition are the event's


def may_have_parents(data: bytes | bytearray | memoryview, *, may_be_plain: bool = True) -> bool:
    """Of a batch that was appended; whoever has looked at plain records already says so."""
    if data[CODEC_AT] & CODEC_MASK:
        return True
    return may_be_plain and _MARKS.may_be_in(data)


class UnreadBatches:
    """Batches that may have such messages, until somebody takes them apart."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._bytes = 0
        self.skipped_total = 0  # batches for which there was no room

    def keep(self, event: TraceEvent, data: bytes | bytearray | memoryview) -> None:
        if self._bytes + len(data) > KEPT_BYTES_MAX:
            self.skipped_total += 1
            return
        self._bytes += len(data)
        self._batches.append((event, bytes(data)))

    def take(self) -> list[Batch]:
        taken, self._batches, self._bytes = self._batches, [], 0
        return taken


def find_parents(kept: Sequence[Batch]) -> list[TraceEvent]:
    """An event for each message that has a trace id of its own; not numbered yet."""
    found = list[TraceEvent]()
    for event, data in kept:
        try:
            for header in batches.headers(data):
                found += _find_in(event, RecordReader(header, record_block(data, header)))
        except GoQueueError:
            continue  # what a producer sent and nobody can read
    return found


def _find_in(event: TraceEvent, reader: RecordReader) -> list[TraceEvent]:
    """Records are taken apart only if one of them may have such a header."""
    found = list[TraceEvent]()
    if not _MARKS.may_be_in(reader.block):
        return found
    while not reader.is_done:
        for record in reader.read():
            value = next((v for name, v in record.headers if name == TRACEPARENT), None)
            parent = None if value is None else parse_traceparent(value)
            if parent is not None:
                found.append(_link(event, record.offset, parent.trace_id, parent.span_id))
    return found


def _link(event: TraceEvent, offset: int, trace_id: str, span_id: str) -> TraceEvent:
    return TraceEvent(
        event.time_us,
        Step.TRACE_LINKED,
        event.topic,
        event.topic_id,
        event.partition,
        offset,
        offset,
        event.space,
        detail=f"{trace_id}-{span_id}",
    )
