"""What a log knows of its producers: enough to refuse repeats, gaps and fenced producers, and to
say which transactions are open.

For each producer id: its newest epoch, its last five batches, and where its open transaction
began.  All of it follows from the batches in the log, in their order: recovery begins with the
state in the checkpoint and takes in the headers of what it verifies.

    batch of an older epoch          refused: a newer producer has taken over
    same sequences as a recent one   answered with the first one's offsets, not written again
    not the next sequence            refused: something in between is missing
    first of a newer epoch           must be sequence 0
    outside an open transaction      refused while the producer has one open here

As in Apache Kafka, any client may use any producer id, and a higher epoch fences whoever used it
before: who may write to a topic is trusted with that.  Nor is it known which ids were given out: a
producer may have got its own from a broker that was restored from an older copy since.  A producer
that is new to a partition may begin with any sequence, for retention may have taken what was known
of it.  (One with transactions of the newer protocol begins with 0: its epochs tell it apart.)

A producer that was silent for a day is forgotten, and may go on with any sequence.  Time is the
broker's, not the records': after a restart a producer counts as seen at the first look.  One whose
transaction ends with the last epoch there is never comes back, and is forgotten at once: engines
take a new producer for each piece of work.

Ids from `KEYED_PRODUCER_MIN` on stand for idempotency keys: a producer for each request, so only
the newest are kept.  The last id of all is the delays' own.

A delay log gets those parts of its producers' batches that are delayed: it `takes_gaps` between
sequences, which the partition's data has checked, and knows a repetition.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import msgspec

from goqueue.model.batch import RESERVED_PRODUCER_MIN, BatchHeader
from goqueue.model.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    OutOfOrderSequence,
)
from goqueue.model.ids import PRODUCER_EPOCH_MAX, Offset, Timestamp
from goqueue.model.markers import UNDECIDED, Marker

BATCHES_KEPT: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
EXPIRY_MS: Final = 24 * 3_600_000
NOT_SEEN: Final = Timestamp(-1)  # by this process
KEYED_PRODUCER_MIN: Final = RESERVED_PRODUCER_MIN
KEYED_PRODUCERS_MAX: Final = 10_000  # of a partition; 6 MB of memory, 0.5 MB of a checkpoint
DELAYS_PRODUCER: Final = 2 * RESERVED_PRODUCER_MIN - 1  # writes what was delayed and is due


class WrittenBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    base_sequence: int
    last_sequence: int
    first_offset: Offset
    last_offset: Offset
    append_time: Timestamp


class Producer(msgspec.Struct, array_like=True):
    """One producer's state in one partition."""

    producer_id: int
    epoch: int
    batches: list[WrittenBatch]  # the newest last; at most BATCHES_KEPT
    transaction_start: Offset | None = None  # of the open transaction's first batch here
    coordinator_epoch: int = -1
    last_seen: Timestamp = NOT_SEEN
    ended_at: Timestamp = UNDECIDED  # when its last transaction here was decided


class EndedTransaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    producer_id: int
    first_offset: Offset
    marker_offset: Offset


class Producers:
    def __init__(
        self, known: Iterable[Producer] = (), unsettled: Iterable[EndedTransaction] = ()
    ) -> None:
        self._by_id = {producer.producer_id: producer for producer in known}
        self._keyed = OrderedDict.fromkeys(
            producer_id for producer_id in self._by_id if _is_keyed(producer_id)
        )  # the newest last
        self.takes_gaps = False
        # Ended, but their markers are not visible yet: readers must not pass them either.
        self._unsettled = list(unsettled)
        starts = [
            (producer.transaction_start, producer.producer_id)
            for producer in self._by_id.values()
            if producer.transaction_start is not None
        ]
        # Invariant: in the order of their starts, since each begins at the end of the log.
        self._open = {producer_id: start for start, producer_id in sorted(starts)}

    # --- asking -----------------------------------------------------------------------------------

    def find(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    def all(self) -> list[Producer]:
        return list(self._by_id.values())

    @property
    def open_transactions(self) -> dict[int, Offset]:
        """Producer id to the offset where its transaction began."""
        return self._open

    def first_open(self) -> Offset | None:
        """Where the oldest transaction began that is not ended."""
        return next(iter(self._open.values()), None)

    def first_unstable(self) -> Offset | None:
        """Where the oldest transaction began that is not decided, visibly, below the watermark."""
        if not self._open and not self._unsettled:
            return None  # most often, and readers ask often
        oldest = self.first_open()
        for ended in self._unsettled:
            if oldest is None or ended.first_offset < oldest:
                oldest = ended.first_offset
        return oldest

    @property
    def has_unsettled(self) -> bool:
        """Whether a transaction has ended, and readers do not see that yet."""
        return bool(self._unsettled)

    def check(self, header: BatchHeader) -> WrittenBatch | None:
        """May this batch be appended?  Gives the earlier one when it is a repeat."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            return None  # nothing to compare with: new here, or expired
        if header.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id} epoch {header.producer_epoch} was superseded by"
                f" epoch {producer.epoch}"
            )
        if producer.transaction_start is not None and not header.is_transactional:
            raise InvalidRecord(
                f"producer {header.producer_id} has a transaction open here, since offset"
                f" {producer.transaction_start}, and the batch is outside of it"
            )
        if header.base_sequence < 0:
            return None
        if header.producer_epoch == producer.epoch and producer.batches:
            return _repeat_or_next(producer, header, takes_gaps=self.takes_gaps)
        if header.base_sequence > 0 and not self.takes_gaps:
            raise OutOfOrderSequence(
                f"producer {header.producer_id} starts epoch {header.producer_epoch} with"
                f" sequence {header.base_sequence}, not 0"
            )
        return None

    # --- taking in --------------------------------------------------------------------------------

    def note_batch(
        self,
        header: BatchHeader,
        first: int,
        last: int,
        append_time: int,
        now: Timestamp = NOT_SEEN,
    ) -> None:
        """A data batch was written at these offsets."""
        producer = self._current(header.producer_id, header.producer_epoch)
        if header.base_sequence >= 0:
            last_sequence = _advance(header.base_sequence, header.last_offset_delta)
            producer.batches.append(
                WrittenBatch(
                    header.base_sequence,
                    last_sequence,
                    Offset(first),
                    Offset(last),
                    Timestamp(append_time),
                )
            )
            del producer.batches[:-BATCHES_KEPT]
        producer.last_seen = max(producer.last_seen, now)
        if _is_keyed(header.producer_id):
            self._keep_newest_keyed(header.producer_id)
        if header.is_transactional and producer.transaction_start is None:
            producer.transaction_start = Offset(first)
            self._open[header.producer_id] = Offset(first)

    def _keep_newest_keyed(self, producer_id: int) -> None:
        self._keyed[producer_id] = None
        if len(self._keyed) > KEYED_PRODUCERS_MAX:
            oldest, _ = self._keyed.popitem(last=False)
            if oldest not in self._open:  # a stranger may have taken the id for a transaction
                self._by_id.pop(oldest, None)

    def has_ended(self, marker: Marker) -> bool:
        """Whether the marker was here before: what is open since is another transaction.

        With an epoch of its own the marker, or what its producer wrote since, has raised the epoch.
        """
        producer = self._by_id.get(marker.producer_id)
        if producer is None or marker.decided_at == UNDECIDED:
            return False
        if marker.is_bumped:
            return producer.epoch >= marker.epoch
        return (producer.epoch, producer.ended_at) == (marker.epoch, marker.decided_at)

    def check_marker(self, marker: Marker) -> None:
        producer = self._by_id.get(marker.producer_id)
        if producer is None:
            return
        if marker.epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"marker of producer {marker.producer_id} epoch {marker.epoch}, it is at"
                f" {producer.epoch}"
            )
        marker.check_coordinator(producer.coordinator_epoch)

    def end_transaction(
        self, marker: Marker, offset: Offset, now: Timestamp = NOT_SEEN
    ) -> EndedTransaction | None:
        """A transaction's marker was written; gives the transaction when it wrote anything here."""
        start = self._open.pop(marker.producer_id, None)
        if marker.epoch == PRODUCER_EPOCH_MAX:
            self._by_id.pop(marker.producer_id, None)
        else:
            producer = self._current(marker.producer_id, marker.epoch)
            producer.coordinator_epoch = max(producer.coordinator_epoch, marker.coordinator_epoch)
            producer.last_seen = max(producer.last_seen, now)
            producer.transaction_start = None
            producer.ended_at = marker.decided_at
        if start is None:
            return None
        transaction = EndedTransaction(marker.producer_id, start, offset)
        self._unsettled.append(transaction)
        return transaction

    def settle(self, high_watermark: Offset) -> None:
        """Markers below the watermark are visible: their transactions hold nobody back."""
        if self._unsettled:
            self._unsettled = [
                ended for ended in self._unsettled if ended.marker_offset >= high_watermark
            ]

    def expire(self, now: Timestamp) -> int:
        """Forget producers that were silent for long and have nothing open."""
        for producer in self._by_id.values():
            if not NOT_SEEN < producer.last_seen <= now:
                producer.last_seen = now  # taken in by recovery, or the clock was set back
        gone = [
            producer.producer_id
            for producer in self._by_id.values()
            if producer.transaction_start is None and producer.last_seen < now - EXPIRY_MS
        ]
        for producer_id in gone:
            del self._by_id[producer_id]
            self._keyed.pop(producer_id, None)
        return len(gone)

    def _current(self, producer_id: int, epoch: int) -> Producer:
        producer = self._by_id.get(producer_id)
        if producer is None:
            producer = self._by_id[producer_id] = Producer(producer_id, epoch, [])
        elif epoch > producer.epoch:
            producer.epoch = epoch
            producer.batches = []
        return producer

    # --- writing down -----------------------------------------------------------------------------

    def snapshot(self) -> tuple[list[Producer], list[EndedTransaction]]:
        return [copy_of(producer) for producer in self._by_id.values()], list(self._unsettled)


def copy_of(producer: Producer) -> Producer:
    return msgspec.structs.replace(producer, batches=list(producer.batches))


def _is_keyed(producer_id: int) -> bool:
    return KEYED_PRODUCER_MIN <= producer_id != DELAYS_PRODUCER


def _repeat_or_next(
    producer: Producer, header: BatchHeader, *, takes_gaps: bool
) -> WrittenBatch | None:
    last_sequence = _advance(header.base_sequence, header.last_offset_delta)
    for written in producer.batches:
        if written.base_sequence == header.base_sequence and written.last_sequence == last_sequence:
            return written
    expected = _advance(producer.batches[-1].last_sequence, 1)
    if header.base_sequence != expected and not takes_gaps:
        raise OutOfOrderSequence(
            f"producer {header.producer_id} sent sequence {header.base_sequence},"
            f" {expected} is next"
        )
    return None


def _advance(sequence: int, count: int) -> int:
    """Sequences wrap from the largest int32 to 0."""
    moved = sequence + count
    return moved if moved <= SEQUENCE_MAX else moved - SEQUENCE_MAX - 1
