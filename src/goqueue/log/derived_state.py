"""What follows from a log's batches, taken in their order: producers' state and abort index.

Whoever writes batches, finds them in a file or gets them from a leader takes them in here, so
that all of them end with the same state.
"""

from goqueue.log.aborted import AbortedRange, AbortIndex
from goqueue.log.producers import NOT_SEEN, Producers
from goqueue.model import markers
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.markers import Marker


def note_batch(
    producers: Producers,
    aborted: AbortIndex | None,
    data: Buffer,
    header: BatchHeader,
    now: Timestamp = NOT_SEEN,
) -> None:
    """Take in a batch as it stands in a log; `aborted` is None when it has the entry already."""
    if not header.has_producer:
        return
    if not header.is_control:  # also what compaction emptied: it stayed for its sequence
        append_time = header.max_timestamp if header.uses_append_time else -1
        producers.note_batch(header, header.base_offset, header.last_offset, append_time, now)
        return
    marker = markers.decode(data, header)
    if marker is not None:
        note_marker(producers, aborted, header, marker, now)


def note_marker(
    producers: Producers,
    aborted: AbortIndex | None,
    header: BatchHeader,
    marker: Marker,
    now: Timestamp = NOT_SEEN,
) -> None:
    """Take a written marker into the producers' state and the abort index."""
    ended = producers.end_transaction(marker, header.base_offset, now)
    if ended is not None and not marker.commits and aborted is not None:
        first_open = producers.first_open()
        stable = Offset(header.next_offset) if first_open is None else first_open
        aborted.append(
            AbortedRange(header.producer_id, ended.first_offset, header.base_offset, stable)
        )
