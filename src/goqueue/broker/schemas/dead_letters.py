"""Records that are not what their schema says, on their way to the dead letters.

    data partition                                         {topic}.dlq, same partition
    ──────────────                                         ───────────────────────────
    was this batch written before?  yes: answer so
    no ── the records at fault, durably ─────────────────> unless they are there
    append the rest; the batch keeps its place and sequence

A producer that sends a batch again after a crash, or after an answer that was lost, gets each of
its records once.  The batch has a mark: partition, producer, epoch and sequence.  Outside of a
transaction, the hash of the mark is the producer id of the batch of dead letters (as with an
idempotency key), so their partition refuses a repeat.  In a transaction, the dead letters belong to
the transaction: their partition is added to it, they are visible if it commits, and what the
transaction wrote there before is looked through for the mark.  A producer without an id gives no
mark, and may write twice, as always; so may one whose batch is judged again because a schema was
registered or deleted before it was sent again.
"""

import asyncio
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.dlq.topic import Services, ensure_dead_letter_topic
from goqueue.broker.messages.idempotency import KEYED_EPOCH, fingerprint_of, producer_id_of
from goqueue.broker.schemas.checks import Verdict
from goqueue.broker.schemas.statistics import TOPICS_COUNTED_MAX
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.broker.transactions.peers import TransactionPeers
from goqueue.cluster import Metadata
from goqueue.cluster.controller import owner_id
from goqueue.log import Appended
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.config import Config
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, Offset, TopicName, TopicPartition
from goqueue.model.record import RECORD_HEADERS_MAX, Record
from goqueue.queue.dead_letter import (
    ERROR_LENGTH_MAX,
    PREFIX,
    dead_letter_topic,
    encode_batch,
    split_by_size,
)
from goqueue.runtime import Environment
from goqueue.schemas.errors import SchemaViolation
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import InvalidTransactionState

REASON: Final = "schema_violation"
MARK: Final = f"{PREFIX}mark"
SCAN_BYTES: Final = 1024 * 1024
MARGIN_SECONDS: Final = 5.0  # beside the time that dead letters have to be durable


class Invalid(msgspec.Struct, frozen=True):
    """A record, and what is wrong with it."""

    record: Record
    problem: SchemaViolation


class DeadLetterPlace(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int


class AppendInvalid(Verb[list[int]], frozen=True):
    """Append dead letters; gives the first offset of each batch when they are durable."""

    name = "append_invalid"
    reply_type = list[int]

    topic: str
    partition: int
    transactional_id: str  # empty: outside of a transaction
    batches: list[bytes]


class DeadLetterBroker(Services, Protocol):
    environment: Environment
    config: Config
    transactions: Transactions
    transaction_peers: TransactionPeers

    @property
    def node_id(self) -> NodeId: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def others(self) -> OtherNodes | None: ...

    async def partition(self, topic: str, index: int) -> Partition: ...

    def append(
        self, partition: Partition, data: bytearray | memoryview, *, is_checked: bool = False
    ) -> Appended: ...

    def transaction_coordinator(self, transactional_id: str) -> NodeId: ...


class SchemaDeadLetters:
    def __init__(self, broker: DeadLetterBroker) -> None:
        self._broker = broker
        self._clock = broker.environment.clock
        self.written: Counter[str] = Counter()  # by topic
        self._turns: weakref.WeakKeyDictionary[Partition, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )

    def serve(self, others: OtherNodes) -> None:
        others.serve(AppendInvalid, self._append_for)

    async def take_out(
        self, partition: Partition, data: Buffer, verdict: Verdict, transactional_id: str = ""
    ) -> None:
        """Return when the records at fault are durable; nothing is done for a repeat.

        Raises what the log would say of the batches' producer, and whatever keeps the dead letters
        from being written.
        """
        partition.check_leader()
        if partition.log.find_repeat(verdict.headers) is not None:
            return
        for number, problems in verdict.problems.items():
            header = verdict.headers[number]
            found = await _read_records(partition, data, header, problems)
            who = None
            if header.is_transactional or transactional_id:
                _check_transactional(header, transactional_id)
                who = ProducerIdentity(header.producer_id, header.producer_epoch)
            mark = _mark_of(partition, header, sorted(problems))
            await self.write(partition, found, mark, transactional_id, who)

    async def write(
        self,
        source: Partition,
        records: Mapping[int, Invalid],
        mark: str,
        transactional_id: str = "",
        who: ProducerIdentity | None = None,
    ) -> dict[int, DeadLetterPlace]:
        """Records of a partition, by any number; where each of them is, durably.

        Those of the same `mark` are written once; an empty one marks nothing.
        """
        name, index = dead_letter_topic(source.topic), int(source.index)
        topic = await ensure_dead_letter_topic(
            self._broker, name, self._broker.topic(source.topic), index
        )
        now = self._clock.now()
        tenant_id = owner_id(self._broker.metadata, source.topic)
        found = {
            number: to_dead_letter(each, source, mark, number, now, tenant_id)
            for number, each in sorted(records.items())
        }
        runs = split_by_size(list(found.values()), topic.settings.max_message_bytes)
        data = [_encode(run, f"{mark}/{n}" if mark else "", who, now) for n, run in enumerate(runs)]
        firsts = await self._append(name, index, transactional_id, data)
        self._count(source.topic, len(records))
        offsets = [
            first + step
            for first, run in zip(firsts, runs, strict=True)
            for step in range(len(run))
        ]
        return {
            number: DeadLetterPlace(name, index, offset)
            for number, offset in zip(found, offsets, strict=True)
        }

    def _count(self, topic: str, count: int) -> None:
        if topic not in self.written and len(self.written) >= TOPICS_COUNTED_MAX:
            topic = ""
        self.written[topic] += count

    async def _append(
        self, topic: str, index: int, transactional_id: str, data: Sequence[bytearray]
    ) -> list[int]:
        others = self._broker.others
        if others is not None:
            leader = others.leader(self._broker.topic(topic), index)
            if leader != others.node_id:
                verb = AppendInvalid(topic, index, transactional_id, list(map(bytes, data)))
                return await others.ask(leader, verb, self._timeout_seconds + MARGIN_SECONDS)
        return await self._append_here(topic, index, transactional_id, data)

    @property
    def _timeout_seconds(self) -> float:
        return self._broker.config.http.publish_timeout_ms / 1000

    # --- the leader of the dead letters -----------------------------------------------------------

    async def _append_for(self, _: NodeId, verb: AppendInvalid) -> list[int]:
        data = list(map(bytearray, verb.batches))
        return await self._append_here(verb.topic, verb.partition, verb.transactional_id, data)

    async def _append_here(
        self, topic: str, index: int, transactional_id: str, data: Sequence[bytearray]
    ) -> list[int]:
        partition = await self._broker.partition(topic, index)
        firsts: list[int] = []
        end = Offset(-1)
        for each in data:
            if transactional_id:
                async with self._turns.setdefault(partition, asyncio.Lock()):
                    first, last = await self._append_in_transaction(
                        partition, transactional_id, each
                    )
            else:
                appended = self._broker.append(partition, each, is_checked=True)
                first, last = appended.first_offset, appended.last_offset
            firsts.append(first)
            end = max(end, last)
        await partition.wait_committed(end, self._timeout_seconds)
        return firsts

    async def _append_in_transaction(
        self, partition: Partition, transactional_id: str, data: bytearray
    ) -> tuple[Offset, Offset]:
        """First and last offset of the batch, which may have been there."""
        header = batches.header_at(data, 0)
        who = ProducerIdentity(header.producer_id, header.producer_epoch)
        known = await _find_marked(partition, who, _mark_in(data, header))
        if known is not None:
            return known.base_offset, known.last_offset
        broker, noted = self._broker, None
        if broker.transaction_coordinator(transactional_id) == broker.node_id:
            await broker.transactions.wait_ready(transactional_id)
            at = TopicPartition(TopicName(partition.topic), partition.index)
            noted = broker.transactions.admit(transactional_id, who, at, adds=True)
        else:
            await broker.transaction_peers.admit(transactional_id, who, partition, adds=True)
        appended = broker.append(partition, data, is_checked=True)
        if noted is not None:
            await asyncio.shield(noted)
        return appended.first_offset, appended.last_offset


# --- records --------------------------------------------------------------------------------------


def to_dead_letter(
    invalid: Invalid, source: Partition, mark: str, number: int, now: int, tenant: str = ""
) -> Record:
    """The record as it was, with headers that say where it should have gone, and what is wrong.

    They name things as the users of the tenant do.
    """
    problem = invalid.problem
    topic = source.topic.removeprefix(f"{tenant}.") if tenant else source.topic
    fields: dict[str, object] = {
        "id": f"schema/{topic}/{source.index}/{mark or now}/{number}",
        **({"tenant": tenant} if tenant else {}),
        "topic": topic,
        "partition": source.index,
        "reason": REASON,
        "error": problem.rule[:ERROR_LENGTH_MAX],
        "path": problem.path,
        "schema-id": "" if problem.schema_id is None else problem.schema_id,
        "time": now,
        "mark": mark,
    }
    headers = tuple((PREFIX + name, str(value).encode()) for name, value in fields.items())
    own = invalid.record.headers[: RECORD_HEADERS_MAX - len(headers)]
    return msgspec.structs.replace(invalid.record, headers=(*own, *headers))


def _encode(
    records: Sequence[Record], mark: str, who: ProducerIdentity | None, now: int
) -> bytearray:
    if who is None:
        producer = (producer_id_of(mark), KEYED_EPOCH, 0) if mark else (-1, -1, -1)
        return encode_batch(records, now, producer)
    data = encode_batch(records, now)
    producer = (who.producer_id, who.epoch, -1)
    header = batches.header_at(data, 0)
    batches.stamp_producer(data, header, producer=producer, is_transactional=True)
    return data


def _check_transactional(header: BatchHeader, transactional_id: str) -> None:
    if not (header.is_transactional and transactional_id):
        raise InvalidTransactionState(
            "a transactional request holds transactional batches, and no other does"
        )


def _mark_of(partition: Partition, header: BatchHeader, places: Sequence[int]) -> str:
    """With the places: where schemas changed since, a repeat has other records at fault."""
    if header.base_sequence < 0:
        return ""
    producer = f"{header.producer_id}/{header.producer_epoch}/{header.base_sequence}"
    return f"{partition.topic_id}/{partition.index}/{producer}/{fingerprint_of(places)}"


async def _read_records(
    partition: Partition, data: Buffer, header: BatchHeader, problems: Mapping[int, SchemaViolation]
) -> dict[int, Invalid]:
    reader = await partition.record_reader(data, header)
    found: dict[int, Invalid] = {}
    place = 0
    while not reader.is_done:
        for record in reader.read():
            if place in problems:
                found[place] = Invalid(record, problems[place])
            place += 1
    return found


async def _find_marked(
    partition: Partition, who: ProducerIdentity, mark: bytes | None
) -> BatchHeader | None:
    """The batch with the mark, in what the open transaction of the producer wrote here."""
    producer = partition.log.producers.find(who.producer_id)
    if producer is None or producer.transaction_start is None or not mark:
        return None
    offset = producer.transaction_start
    while offset < partition.log.end_offset:
        chunk = await partition.read(offset, SCAN_BYTES, partition.log.end_offset)
        for header in batches.headers(chunk.data):
            if (header.producer_id, header.producer_epoch) != (who.producer_id, who.epoch):
                continue
            if not header.is_control and _mark_in(chunk.data, header) == mark:
                return header
        offset = chunk.next_offset
    return None


def _mark_in(data: Buffer, header: BatchHeader) -> bytes | None:
    """Mark and number of its first record."""
    try:
        for some in batches.decode_slices(data, header):
            fields = dict(some[0].headers)
            mark, identity = fields.get(MARK), fields.get(f"{PREFIX}id")
            return identity if mark else None
    except GoQueueError:  # somebody else's, and damaged
        return None
    return None
