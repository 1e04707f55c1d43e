"""Publishing and reading messages: the verbs for listeners whose callers think in records.

Kafka clients send and fetch whole batches and do not use this module; HTTP does.  Publishing makes
one batch for each partition of a request, so a thousand messages cost a few appends and one shared
commit.

    publish   explicit partition, else Kafka's hash of the key, else one partition drawn for the
              whole request, the next one for the next request; answers in the request's order
    read      one partition, from an offset, up to `end` (`read.py`)
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.cluster.other_nodes import outcome_of
from goqueue.broker.messages.delaying import (
    Waiting,
    find_due_times,
    note_past,
    publish_keyed,
    schedule,
    to_record,
)
from goqueue.broker.messages.idempotency import (
    KEYED_EPOCH,
    IdempotencyKeyReused,
    fingerprint_of,
    producer_id_of,
)
from goqueue.broker.messages.outgoing import Acks, Outcome, OutgoingMessage, Published
from goqueue.broker.messages.outgoing_check import OutgoingCheck
from goqueue.broker.messages.preparation import (
    MessageCheck,
    PartitionRotation,
    fitting_runs,
    partition_of,
)
from goqueue.broker.messages.publish_elsewhere import (
    PublishHere,
    PublishOutcome,
    not_published,
    publish_elsewhere,
)
from goqueue.broker.messages.read import ReadHere, read, read_here, read_page
from goqueue.broker.messages.remote_partition import (
    PartitionsHere,
    Readable,
    RemotePartition,
    offset_for_time,
)
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import NO_LEADER, Topic
from goqueue.log import Appended
from goqueue.model import batch as batches
from goqueue.model.errors import (
    BatchTooLarge,
    GoQueueError,
    OutOfOrderSequence,
    TopicNotFound,
)
from goqueue.model.ids import NodeId, Offset, Timestamp
from goqueue.model.names import refuse_internal
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record

INT32_MAX: Final = 2**31 - 1
NO_TIME: Final = -1
NO_PRODUCER: Final = (-1, -1, -1)
KEY_REUSED: Final = "this idempotency key was used with other messages: take a new one"


class _Batch(msgspec.Struct):
    records: list[Record]
    data: bytearray
    is_keyed: bool = False  # by an idempotency key


class Messages:
    """The verbs, and whose turn it is among the partitions for messages without a key."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rotation = PartitionRotation()
        self._schemas = OutgoingCheck(broker)
        if broker.others is not None:
            broker.others.serve(PublishHere, self.publish_here)
            broker.others.serve(ReadHere, partial(read_here, broker))
            PartitionsHere(broker).serve(broker.others)

    read = staticmethod(read)

    async def offset_for_time(self, partition: Readable, time: Timestamp) -> Offset:
        """The first record at or after `time`, or the end when there is none yet."""
        found = await offset_for_time(self._broker, partition, time)
        if found is not None:
            return found
        if isinstance(partition, RemotePartition):
            return partition.log.visible_end
        return partition.read_limit(committed_only=True)

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
        rest = messages, outcomes, acks, idempotency_key
        elsewhere = self._led_elsewhere(target, assigned)
        if elsewhere:
            here = {index: some for index, some in assigned.items() if index not in elsewhere}
            await asyncio.gather(
                self._publish(target, here, *rest),
                publish_elsewhere(self._broker, target, elsewhere, *rest),
            )
        else:
            here = assigned
            await self._publish(target, assigned, *rest)
        if self._broker.others is not None:
            refused = not_published(here, outcomes, is_keyed=idempotency_key is not None)
            if moved := self._led_elsewhere(target, refused):  # since a moment ago
                await publish_elsewhere(self._broker, target, moved, *rest)
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
        waiting: Waiting = []
        timeout_seconds = self._broker.config.http.publish_timeout_ms / 1000
        for index, places in assigned.items():
            try:
                partition = await self._broker.partition(topic.name, index)
            except GoQueueError as error:
                _fill(outcomes, places, error)
                continue
            if topic.settings.validates:
                places = await self._schemas.check(
                    partition, places, messages, outcomes, idempotency_key
                )
                if not places:
                    continue
            now = self._broker.environment.clock.now()
            due_times = find_due_times(topic, messages, places, now, outcomes)
            delays = self._broker.delays.appends
            if due_times.later and idempotency_key is None:
                waiting += await schedule(delays, partition, messages, due_times, outcomes, now)
            places = [place for place in places if outcomes[place] is None]
            if not places:
                continue
            bytes_max = topic.settings.max_message_bytes
            if idempotency_key is None:
                made = self._batches(messages, places, bytes_max, outcomes)
            else:
                made = self._keyed_batch(messages, places, bytes_max, outcomes, idempotency_key)
            for some, batch in made:
                if due_times.later and idempotency_key is not None:
                    waiting += await self._publish_keyed(
                        partition, batch, some, outcomes, timeout_seconds
                    )
                    continue
                last = self._append(partition, some, batch, outcomes, acks)
                if last is not None and acks == "all":
                    waiting.append((partition.wait_committed(last, timeout_seconds), some))
            note_past(outcomes, due_times)
        await _settle(waiting, outcomes)
        if idempotency_key is not None:
            await self._restore_times(topic.name, assigned, outcomes)

    async def _publish_keyed(
        self,
        partition: Partition,
        batch: _Batch,
        places: list[int],
        outcomes: list[Outcome | None],
        timeout_seconds: float,
    ) -> Waiting:
        delays, now = self._broker.delays.appends, self._broker.environment.clock.now()
        try:
            return await publish_keyed(
                delays, partition, batch.data, places, outcomes, timeout_seconds, now
            )
        except OutOfOrderSequence:
            _fill(outcomes, places, IdempotencyKeyReused(KEY_REUSED))
        except GoQueueError as error:
            _fill(outcomes, places, error)
        return []

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
            if isinstance(outcome, Published) and outcome.is_repeat and not outcome.is_delayed:
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
            appended = self._broker.append(
                partition, batch.data, waits=acks == "all", is_checked=True
            )
        except GoQueueError as error:
            is_reused = batch.is_keyed and isinstance(error, OutOfOrderSequence)
            _fill(outcomes, places, IdempotencyKeyReused(KEY_REUSED) if is_reused else error)
            return None
        _note_published(outcomes, places, partition.index, appended, batch.records)
        return appended.last_offset


def _are_plain(messages: Sequence[OutgoingMessage]) -> bool:
    """Nothing is said of where they go or when they were made."""
    return {(each.partition, each.key, each.timestamp) for each in messages} == {(None, None, None)}


def _encode_batch(
    messages: list[OutgoingMessage],
    now: Timestamp,
    producer: tuple[int, int, int] = NO_PRODUCER,
) -> _Batch:
    records = [to_record(each, now) for each in messages]
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


async def _settle(waiting: Waiting, outcomes: list[Outcome | None]) -> None:
    """Wait for all commits; what could not be made durable is a failure after all."""
    answers = await asyncio.gather(*(future for future, _ in waiting), return_exceptions=True)
    for answer, (_, places) in zip(answers, waiting, strict=True):
        if isinstance(answer, GoQueueError):
            _fill(outcomes, places, answer)
        elif answer is not None:
            raise answer
