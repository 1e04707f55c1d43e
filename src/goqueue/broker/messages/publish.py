"""Publishing and reading messages: the verbs for listeners whose callers think in records.

Kafka clients send and fetch whole batches and do not use this module; HTTP does.  Publishing makes
one batch for each partition of a request, so a thousand messages cost a few appends and one shared
commit.

    publish   explicit partition, else Kafka's hash of the key, else one partition drawn for the
              whole request, the next one for the next request; answers in the request's order
    read      one partition, from an offset, up to `end`

Readers see what is committed, and may wait for more (`broker/long_poll.py`).
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.cluster.other_nodes import Verb, outcome_of
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.messages.idempotency import (
    KEYED_EPOCH,
    IdempotencyKeyReused,
    fingerprint_of,
    producer_id_of,
)
from goqueue.broker.messages.outgoing import Acks, Outcome, OutgoingMessage, Published
from goqueue.broker.messages.publish_elsewhere import (
    PublishHere,
    PublishOutcome,
    publish_elsewhere,
)
from goqueue.broker.messages.remote_partition import (
    PartitionsHere,
    Readable,
    RemotePartition,
    offset_for_time,
)
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import NO_LEADER, Topic
from goqueue.log import AbortedRange, Appended, is_aborted
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader, Buffer
from goqueue.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    CorruptData,
    GoQueueError,
    InvalidRecord,
    InvalidTimestamp,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PartitionNotFound,
    TopicNotFound,
    UnsupportedBatch,
)
from goqueue.model.ids import NodeId, Offset, Timestamp, TopicId
from goqueue.model.names import refuse_internal
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record

RECORD_OVERHEAD_MAX: Final = 36  # bytes of a record beside key, value and headers
HEADER_OVERHEAD_MAX: Final = 10  # bytes of a header beside its name and value
READ_BYTES_MIN: Final = 65_536
RECORD_BYTES_GUESS: Final = 512
INT32_MAX: Final = 2**31 - 1
READ_THERE_BYTES_MAX: Final = 4 * 1024 * 1024  # from another node at once; a frame holds 16 MiB
NO_TIME: Final = -1
NO_PRODUCER: Final = (-1, -1, -1)
KEY_REUSED: Final = "this idempotency key was used with other messages: take a new one"
REMEMBERED_TOPICS_MAX: Final = 10_000  # whose next partition for keyless messages is known


class Page(msgspec.Struct, frozen=True):
    """Some records of a partition and where to go on."""

    records: list[Record]
    next_offset: Offset
    start_offset: Offset
    high_watermark: Offset  # committed readers see everything below it
    at_end: bool  # nothing more was there to read


class PageThere(msgspec.Struct, frozen=True):
    """A page of another node's partition, or what could not be read."""

    page: Page | None = None
    problem: str = ""
    is_damaged: bool = False  # else it is as its producer sent it
    continue_at: Offset = Offset(0)


class ReadHere(Verb[PageThere], frozen=True):
    name = "read_partition"
    reply_type = PageThere

    topic_id: UUID
    partition: int
    offset: Offset
    limit: int
    bytes_max: int
    end: Offset | None


class DamagedRecords(CorruptData):
    """Stored records that cannot be read; `continue_at` is the first offset behind them."""

    def __init__(self, text: str, continue_at: Offset) -> None:
        super().__init__(text)
        self.continue_at = continue_at


class UnreadableRecords(CorruptBatch):
    """Records that cannot be decoded, stored as their producer sent them: nothing is damaged.

    `continue_at` is the first offset behind them.
    """

    code = "unreadable_records"

    def __init__(self, text: str, continue_at: Offset) -> None:
        super().__init__(text)
        self.continue_at = continue_at


class _Batch(msgspec.Struct):
    records: list[Record]
    data: bytearray
    is_keyed: bool = False  # by an idempotency key


class Messages:
    """The verbs, and whose turn it is among the partitions for messages without a key."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rotation = PartitionRotation()
        if broker.others is not None:
            broker.others.serve(PublishHere, self.publish_here)
            broker.others.serve(ReadHere, self.read_here)
            PartitionsHere(broker).serve(broker.others)

    # --- publish ---------------------------------------------------------------------------------

    async def publish(
        self,
        topic: str,
        messages: Sequence[OutgoingMessage],
        *,
        acks: Acks = "all",
        idempotency_key: str | None = None,
    ) -> list[Outcome]:
        """What became of each message, in order.  With acks=all they are durable on return.

        Under an `idempotency_key` a repeated publish is not written again (`idempotency`).
        Raises when the topic cannot be published to at all.
        """
        refuse_internal(topic)
        target = await self._broker.ensure_topic(topic)
        outcomes: list[Outcome | None] = [None] * len(messages)
        assigned = self._assign(target, messages, outcomes, idempotency_key)
        elsewhere = self._led_elsewhere(target, assigned)
        if elsewhere:
            here = {index: some for index, some in assigned.items() if index not in elsewhere}
            await asyncio.gather(
                self._publish(target, here, messages, outcomes, acks, idempotency_key),
                publish_elsewhere(
                    self._broker, target, elsewhere, messages, outcomes, acks, idempotency_key
                ),
            )
        else:
            await self._publish(target, assigned, messages, outcomes, acks, idempotency_key)
        return [outcome for outcome in outcomes if outcome is not None]

    async def publish_here(self, _: NodeId, request: PublishHere) -> list[PublishOutcome]:
        """For another node: to partitions that this one leads."""
        topic = self._broker.topic_by_id(request.topic_id)
        outcomes: list[Outcome | None] = [None] * len(request.messages)
        assigned: dict[int, list[int]] = {}
        for place, index in enumerate(request.partitions):
            assigned.setdefault(index, []).append(place)
        await self._publish(
            topic, assigned, request.messages, outcomes, request.acks, request.idempotency_key
        )
        return [outcome_of(each) for each in outcomes if each is not None]

    def _led_elsewhere(
        self, topic: Topic, assigned: dict[int, list[int]]
    ) -> dict[int, list[int]] | None:
        """Those of the assigned partitions that other nodes lead."""
        others = self._broker.others
        if others is None:
            return None
        states = self._broker.metadata.partitions.of(topic.topic_id)
        return {
            index: places
            for index, places in assigned.items()
            if states[index].leader not in (others.node_id, NO_LEADER)
        }

    async def _publish(
        self,
        topic: Topic,
        assigned: dict[int, list[int]],
        messages: Sequence[OutgoingMessage],
        outcomes: list[Outcome | None],
        acks: Acks,
        idempotency_key: str | None,
    ) -> None:
        """To partitions of this node."""
        waiting: list[tuple[asyncio.Future[None], list[int]]] = []
        timeout_seconds = self._broker.config.http.publish_timeout_ms / 1000
        for index, places in assigned.items():
            try:
                partition = await self._broker.partition(topic.name, index)
            except GoQueueError as error:
                _fill(outcomes, places, error)
                continue
            bytes_max = topic.settings.max_message_bytes
            if idempotency_key is None:
                made = self._batches(messages, places, bytes_max, outcomes)
            else:
                made = self._keyed_batch(messages, places, bytes_max, outcomes, idempotency_key)
            for some, batch in made:
                last = self._append(partition, some, batch, outcomes, acks)
                if last is not None and acks == "all":
                    waiting.append((partition.committed(last, timeout_seconds), some))
        await _settle(waiting, outcomes)
        if idempotency_key is not None:
            await self._restore_times(topic.name, assigned, outcomes)

    def _assign(
        self,
        topic: Topic,
        messages: Sequence[OutgoingMessage],
        outcomes: list[Outcome | None],
        idempotency_key: str | None,
    ) -> dict[int, list[int]]:
        """Partition to places in the request; what this topic cannot take gets its outcome here."""
        check = MessageCheck(topic, self._broker.environment.clock.now())
        if idempotency_key is None and not check.needs_key and _are_plain(messages):
            return {self._rotation.next_partition(topic): list(range(len(messages)))}
        drawn: int | None = None
        if idempotency_key is not None:  # a repeat must find it again
            drawn = murmur2_partition(idempotency_key.encode(), topic.partitions)
        assigned: dict[int, list[int]] = {}
        for place, message in enumerate(messages):
            problem = check.problem(message)
            if problem is not None:
                outcomes[place] = problem
                continue
            index = partition_of(message, topic)
            if index is None:
                if drawn is None:
                    drawn = self._rotation.next_partition(topic)
                index = drawn
            assigned.setdefault(index, []).append(place)
        return assigned

    def _batches(
        self,
        messages: Sequence[OutgoingMessage],
        places: list[int],
        bytes_max: int,
        outcomes: list[Outcome | None],
    ) -> Iterator[tuple[list[int], _Batch]]:
        """One batch; or, when that is too large, as many as are needed."""
        now = self._broker.environment.clock.now()
        try:
            whole = _encode_batch([messages[place] for place in places], now)
            if len(whole.data) <= bytes_max or len(places) == 1:
                yield places, whole
                return
            for some in fitting_runs(messages, places, bytes_max):
                yield some, _encode_batch([messages[place] for place in some], now)
        except GoQueueError as error:  # what the record format cannot hold
            _fill(outcomes, [place for place in places if outcomes[place] is None], error)

    def _keyed_batch(
        self,
        messages: Sequence[OutgoingMessage],
        places: list[int],
        bytes_max: int,
        outcomes: list[Outcome | None],
        key: str,
    ) -> Iterator[tuple[list[int], _Batch]]:
        """One batch, whose producer and sequence say which key and which messages it is."""
        chosen = [messages[place] for place in places]
        producer = (producer_id_of(key), KEYED_EPOCH, fingerprint_of(chosen))
        try:
            batch = _encode_batch(chosen, self._broker.environment.clock.now(), producer)
            if len(batch.data) > bytes_max:
                raise BatchTooLarge(
                    f"batch of {len(batch.data)} bytes, {bytes_max} allowed (topic setting"
                    " max.message.bytes): under an idempotency key the messages of a partition"
                    " must fit one batch"
                )
            yield places, batch
        except GoQueueError as error:
            _fill(outcomes, places, error)

    async def _restore_times(
        self, topic: str, assigned: dict[int, list[int]], outcomes: list[Outcome | None]
    ) -> None:
        """A repeat is answered with the times of the first publish, as long as they are there."""
        repeats: dict[int, dict[int, Published]] = {}
        for place in itertools.chain.from_iterable(assigned.values()):
            outcome = outcomes[place]
            if isinstance(outcome, Published) and outcome.is_repeat:
                repeats.setdefault(outcome.partition, {})[place] = outcome
        for index, some in repeats.items():
            first = Offset(min(each.offset for each in some.values()))
            try:
                partition = await self._broker.partition(topic, index)
                page = await read_page(partition, first, limit=len(some), bytes_max=INT32_MAX)
                times = {record.offset: record.timestamp for record in page.records}
            except GoQueueError:  # deleted or damaged since
                times = {}
            for place, outcome in some.items():
                time = times.get(outcome.offset, NO_TIME)
                outcomes[place] = msgspec.structs.replace(outcome, timestamp=time)

    def _append(
        self,
        partition: Partition,
        places: list[int],
        batch: _Batch,
        outcomes: list[Outcome | None],
        acks: Acks,
    ) -> Offset | None:
        """Append one batch; gives its last offset, or None when all its messages were refused."""
        try:
            if partition.log.abandoned:
                raise TopicNotFound(f"topic {partition.topic!r} was deleted")
            appended = self._broker.append(partition, batch.data, waits=acks == "all")
        except GoQueueError as error:
            is_reused = batch.is_keyed and isinstance(error, OutOfOrderSequence)
            _fill(outcomes, places, IdempotencyKeyReused(KEY_REUSED) if is_reused else error)
            return None
        _note_published(outcomes, places, partition.index, appended, batch.records)
        return appended.last_offset

    # --- read ------------------------------------------------------------------------------------

    async def read(
        self,
        partition: Partition,
        offset: Offset,
        *,
        limit: int,
        bytes_max: int,
        end: Offset | None = None,
        poll: LongPoll | None = None,
    ) -> Page:
        """Records from `offset`, at most `limit` and about `bytes_max` bytes, all below `end`.

        Raises `OffsetOutOfRange`, `DamagedRecords`, `UnreadableRecords`, or `TopicNotFound` once
        it is deleted.
        """
        page = await read_page(partition, offset, limit=limit, bytes_max=bytes_max, end=end)
        if page.records or poll is None or _is_reached(page.next_offset, end):
            count_read(partition, page.records)
            return page
        with poll:
            poll.subscribe([partition])
            while (
                not page.records
                and not _is_reached(page.next_offset, end)
                and (not page.at_end or await poll.wait())  # only aborted ones so far: go on
            ):
                page = await read_page(
                    partition, page.next_offset, limit=limit, bytes_max=bytes_max, end=end
                )
        count_read(partition, page.records)
        return page

    async def read_here(self, _: NodeId, request: ReadHere) -> PageThere:
        """For another node: of a partition that this one leads."""
        topic = self._broker.topic_by_id(request.topic_id)
        partition = await self._broker.partition(topic.name, request.partition)
        try:
            page = await read_page(
                partition,
                request.offset,
                limit=request.limit,
                bytes_max=request.bytes_max,
                end=request.end,
            )
        except (DamagedRecords, UnreadableRecords) as error:
            is_damaged = isinstance(error, DamagedRecords)
            return PageThere(None, str(error), is_damaged, error.continue_at)
        return PageThere(page)

    async def offset_for_time(self, partition: Readable, time: Timestamp) -> Offset:
        """The first record at or after `time`, or the end when there is none yet."""
        found = await offset_for_time(self._broker, partition, time)
        if found is not None:
            return found
        if isinstance(partition, RemotePartition):
            return partition.log.visible_end
        return partition.read_limit(committed_only=True)


# --- publishing: helpers ------------------------------------------------------------------------


def partition_of(message: OutgoingMessage, topic: Topic) -> int | None:
    """The partition that the message names, or else that of its key; None if it has neither."""
    if message.partition is not None:
        return message.partition
    return None if message.key is None else murmur2_partition(message.key, topic.partitions)


class PartitionRotation:
    """Partitions in turn, for messages that could go to any; one for all of a request."""

    def __init__(self) -> None:
        self._turns: dict[TopicId, int] = {}

    def next_partition(self, topic: Topic) -> int:
        turn = self._turns.get(topic.topic_id, 0)
        if len(self._turns) >= REMEMBERED_TOPICS_MAX:
            self._turns.clear()
        self._turns[topic.topic_id] = turn + 1
        return turn % topic.partitions


class MessageCheck:
    """What a topic's settings say about single messages, so that one of them fails alone."""

    def __init__(self, topic: Topic, now: Timestamp) -> None:
        settings = topic.settings
        self._topic = topic
        self.needs_key = settings.is_compacted
        self._latest = now + settings.message_timestamp_after_max_ms
        self._earliest = max(0, now - settings.message_timestamp_before_max_ms)
        self._ignores_time = settings.stamps_append_time

    def problem(self, message: OutgoingMessage) -> GoQueueError | None:
        if message.partition is not None:
            try:
                self._topic.check_partition(message.partition)
            except PartitionNotFound as error:
                return error
        if message.timestamp is not None and not self._takes_time(message.timestamp):
            return InvalidTimestamp(
                f"timestamp {message.timestamp} is outside {self._earliest} to {self._latest}"
                " (topic settings message.timestamp.before.max.ms and .after.max.ms)"
            )
        if self.needs_key and message.key is None:
            return InvalidRecord("a compacted topic takes only messages with a key")
        return None

    def _takes_time(self, timestamp: int) -> bool:
        return self._ignores_time or self._earliest <= timestamp <= self._latest


def _are_plain(messages: Sequence[OutgoingMessage]) -> bool:
    """Nothing is said of where they go or when they were made."""
    return {(each.partition, each.key, each.timestamp) for each in messages} == {(None, None, None)}


def fitting_runs(
    messages: Sequence[OutgoingMessage], places: list[int], bytes_max: int
) -> Iterator[list[int]]:
    """Runs of places that surely fit a batch; one that is too large by itself stands alone."""
    some: list[int] = []
    size = HEADER_BYTES
    for place in places:
        needed = _size_max(messages[place])
        if some and size + needed > bytes_max:
            yield some
            some, size = [], HEADER_BYTES
        some.append(place)
        size += needed
    if some:
        yield some


def _size_max(message: OutgoingMessage) -> int:
    size = RECORD_OVERHEAD_MAX + len(message.key or b"") + len(message.value or b"")
    for name, value in message.headers:
        size += HEADER_OVERHEAD_MAX + 4 * len(name) + len(value or b"")
    return size


def _encode_batch(
    messages: list[OutgoingMessage],
    now: Timestamp,
    producer: tuple[int, int, int] = NO_PRODUCER,
) -> _Batch:
    records = [
        Record(
            0, now if each.timestamp is None else each.timestamp, each.key, each.value, each.headers
        )
        for each in messages
    ]
    data = batches.encode(records, producer=producer)
    return _Batch(records, data, producer is not NO_PRODUCER)


def _note_published(
    outcomes: list[Outcome | None],
    places: list[int],
    partition: int,
    appended: Appended,
    records: list[Record],
) -> None:
    times = [record.timestamp for record in records]
    if appended.append_time >= 0:
        times = [appended.append_time] * len(records)
    offsets = range(appended.first_offset, appended.first_offset + len(records))
    for place, offset, timestamp in zip(places, offsets, times, strict=True):
        outcomes[place] = Published(partition, offset, timestamp, appended.is_repeat)


def _fill(outcomes: list[Outcome | None], places: list[int], error: GoQueueError) -> None:
    for place in places:
        outcomes[place] = error


async def _settle(
    waiting: list[tuple[asyncio.Future[None], list[int]]], outcomes: list[Outcome | None]
) -> None:
    """Wait for all commits; what could not be made durable is a failure after all."""
    answers = await asyncio.gather(*(future for future, _ in waiting), return_exceptions=True)
    for answer, (_, places) in zip(answers, waiting, strict=True):
        if isinstance(answer, GoQueueError):
            _fill(outcomes, places, answer)
        elif answer is not None:
            raise answer


# --- reading: helpers ---------------------------------------------------------------------------


def _is_reached(offset: Offset, end: Offset | None) -> bool:
    return end is not None and offset >= end


def count_read(partition: Readable, records: list[Record]) -> None:
    """A reader was given these."""
    partition.messages_out += len(records)
    partition.bytes_out += sum(
        len(record.key or b"") + len(record.value or b"") for record in records
    )


async def _read_there(
    partition: RemotePartition, offset: Offset, limit: int, bytes_max: int, end: Offset | None
) -> Page:
    request = ReadHere(
        partition.topic_id,
        partition.index,
        offset,
        limit,
        min(bytes_max, READ_THERE_BYTES_MAX),
        end,
    )
    found = await partition.others.ask(partition.leader, request)
    if found.page is not None:
        return found.page
    kind = DamagedRecords if found.is_damaged else UnreadableRecords
    raise kind(found.problem, found.continue_at)


async def read_page(
    partition: Readable,
    offset: Offset,
    *,
    limit: int,
    bytes_max: int,
    end: Offset | None = None,
) -> Page:
    """As `Messages.read`, without waiting, and nobody was given anything yet."""
    if isinstance(partition, RemotePartition):
        return await _read_there(partition, offset, limit, bytes_max, end)
    log = partition.log
    if log.abandoned:
        raise TopicNotFound(f"topic {partition.topic!r} was deleted")
    partition.check_leader()
    if not log.start_offset <= offset <= log.end_offset:
        raise OffsetOutOfRange(
            f"offset {offset} is outside {log.start_offset} to {log.end_offset}"
            f" of {partition.topic!r} partition {partition.index}"
        )
    if offset >= log.high_watermark and log.failed is None:
        await partition.flush_visible()  # a reader at the end asks for what is written
    else:
        await partition.settle()
    stop = partition.read_limit(committed_only=True)
    if end is not None:
        stop = min(stop, end)
    filling = _Filling(offset, limit, bytes_max, stop)
    while not filling.is_full and filling.offset < stop:
        try:
            chunk = await partition.read(filling.offset, filling.bytes_wanted, stop)
            aborted = log.aborted.between(filling.offset, chunk.next_offset)
            await filling.take(partition, chunk.data, chunk.next_offset, aborted)
        except (CorruptData, UnreadableRecords) as error:
            if filling.records:
                break  # the reader gets what is sound, and the error when it comes back
            raise _describe_damage(error, partition, filling.offset) from error
    return Page(
        filling.records,
        filling.offset,
        log.start_offset,
        partition.read_limit(committed_only=True),
        filling.offset >= stop,
    )


class _Filling:
    """A page while it is being filled."""

    def __init__(self, offset: Offset, limit: int, bytes_max: int, stop: Offset) -> None:
        self.records: list[Record] = []
        self.offset = offset  # the next one to look at
        self.bytes_left = bytes_max
        self._limit = limit
        self._stop = stop

    @property
    def is_full(self) -> bool:
        return len(self.records) >= self._limit or self.bytes_left <= 0

    @property
    def bytes_wanted(self) -> int:
        """A guess at what the records that are still missing take on disk."""
        missing = self._limit - len(self.records)
        return min(self.bytes_left, max(READ_BYTES_MIN, missing * RECORD_BYTES_GUESS))

    async def take(
        self, partition: Partition, data: Buffer, next_offset: Offset, aborted: list[AbortedRange]
    ) -> None:
        """Take what fits from whole batches that end before `next_offset`."""
        for header in batches.headers(data):
            if not header.is_control and not is_aborted(header, aborted):
                await self._take_batch(partition, data, header)
            if self.is_full or self.offset >= self._stop:
                return
            self.offset = header.next_offset
            self.bytes_left -= HEADER_BYTES
        self.offset = next_offset

    async def _take_batch(self, partition: Partition, data: Buffer, header: BatchHeader) -> None:
        """Its bytes are sound, but what a producer put into them may be not."""
        try:
            reader = await partition.record_reader(data, header)
            while not reader.is_done:
                wanted = min(self._limit - len(self.records), batches.SLICE_OBJECTS)
                for record in reader.read(self.offset, wanted):
                    if record.offset >= self._stop or not self._add(record):
                        return
                if not reader.is_done:
                    await asyncio.sleep(0)  # let others have their turn
        except (CorruptBatch, UnsupportedBatch, BatchTooLarge) as error:
            raise UnreadableRecords(
                f"offsets {self.offset} to {header.last_offset} cannot be decoded, although they"
                f" are as the producer sent them: {error}; continue at offset {header.next_offset}",
                header.next_offset,
            ) from error

    def _add(self, record: Record) -> bool:
        """Whether there is room for more after it."""
        self.records.append(record)
        self.offset = Offset(record.offset + 1)
        self.bytes_left -= len(record.key or b"") + len(record.value or b"")
        if record.headers:
            self.bytes_left -= sum(len(name) + len(value or b"") for name, value in record.headers)
        return not self.is_full


def _describe_damage(
    error: GoQueueError, partition: Partition, offset: Offset
) -> DamagedRecords | UnreadableRecords:
    if isinstance(error, DamagedRecords | UnreadableRecords):
        return error
    last = partition.log.damaged.get(offset)
    continue_at = Offset(offset + 1) if last is None else Offset(last + 1)
    return DamagedRecords(str(error), continue_at)
