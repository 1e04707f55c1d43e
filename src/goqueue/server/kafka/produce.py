"""Produce: append each partition's batches, reply when they are as safe as the client asked.

A batch with delayed messages is written in two parts, and the delayed one is durable before the
other is written: see `broker/delays/appending.py`.

acks=0 gets no reply; acks=1 one as soon as the batches are written; acks=all (-1) one when they
are durable and visible, or a time-out.  The next request is handled while this one's commit is
under way.  In a transaction acks=1 is answered as acks=all is: what it commits must not be lost.
"""

import asyncio
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.broker import Broker, Partition
from goqueue.broker.traces.requester import requester
from goqueue.cluster import Topic
from goqueue.delay import DELAY_HEADER, DELIVER_AT_HEADER, may_hold_delays
from goqueue.log import Appended
from goqueue.model.batch import (
    CODEC_AT,
    CODEC_MASK,
    has_reserved_producer,
    header_at,
    is_transactional,
)
from goqueue.model.errors import (
    GoQueueError,
    InvalidRecord,
    InvalidRecords,
    InvalidRequest,
    NotCoordinator,
    OutOfOrderSequence,
    PolicyViolation,
    StorageFailed,
    TimedOut,
    TopicAccessDenied,
    TopicIdNotFound,
)
from goqueue.model.header_marks import HeaderMarks
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.partial_batch import LeftOut
from goqueue.quotas import Namespace
from goqueue.security import Operation
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.errors import kafka_code, leader_of
from goqueue.server.kafka.leaders import find_leader, leader_endpoints
from goqueue.server.kafka.limits import Turn
from goqueue.server.kafka.reply import ReplySlot
from goqueue.server.kafka.tenancy.data import produce_into, show_produce
from goqueue.server.kafka.tenancy.limits import NO_LIMITS, ClientLimits
from goqueue.server.kafka.transactions import data_code
from goqueue.trace.ids import TRACEPARENT
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    TransactionError,
)
from goqueue.wire.frames import RequestHeader
from goqueue.wire.nodes import LeaderAndEpoch
from goqueue.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopicResponse,
    RecordError,
    decode_produce,
    encode_produce_response,
)

ABORTABLE_FROM: Final = 11
ADDS_PARTITIONS_FROM: Final = 12  # KIP-890: from then on a Produce adds its partition itself
ACKS_NONE: Final = 0
ACKS_ALL: Final = -1
_ACKS: Final = (ACKS_NONE, 1, ACKS_ALL)
_MARKS: Final = HeaderMarks(TRACEPARENT, DELAY_HEADER, DELIVER_AT_HEADER)

Results = dict[str | UUID, list[ProducePartitionResponse]]


async def handle_produce(
    broker: Broker,
    access: Access,
    header: RequestHeader,
    slot: ReplySlot,
    limits: ClientLimits = NO_LIMITS,
) -> None:
    """Append in order, before anything else of this connection is handled; then let it wait."""
    request = decode_produce(header.api_version, header.body)
    full: GoQueueError | None = None
    if limits.namespace is not None:
        request = produce_into(request, limits.namespace)
        full = await _storage_refusal(broker, limits.namespace)
    waits = request.acks == ACKS_ALL or request.transactional_id is not None
    timeout_seconds = request.timeout_ms / 1000
    reply = _Reply(broker, header.api_version, request.acks, slot, waits, timeout_seconds)
    reply.namespace = limits.namespace
    may_delay = _look_for_headers(header.body)
    turn = Turn()
    for topic in request.topics:
        results = reply.results.setdefault(topic.topic, [])
        found = await _topic(broker, access, request.transactional_id, topic.topic)
        if full is not None and not isinstance(found, GoQueueError):
            found = full
        for item in topic.partitions:
            if turn.is_over(len(item.records or b"")):
                await asyncio.sleep(0)
            if request.acks not in _ACKS:
                wrong = InvalidRequest("acks is 0, 1 or -1")
                results.append(_refuse(item.index, ErrorCode.invalid_required_acks, wrong, None))
                continue
            try:
                partition = await _partition(broker, found, item.index)
                batches = _batches(item)
                sent = _Sent(request, header.api_version, partition, batches, waits, may_delay)
                appended, admitted = await _append(broker, sent)
            except GoQueueError as error:
                reply.refuse(topic.topic, item.index, _code(error, header.api_version), error)
                if isinstance(error, TransactionError) and broker.transactions.is_coordinating:
                    reply.wait_for(broker.transactions.host.pending_commit(), results)
            else:
                reply.note_written(results, item.index, partition, appended, admitted)
                reply.written_bytes += len(batches)
    if limits.throttle is not None:
        reply.throttle_ms = limits.throttle.charge_publish(
            reply.written_bytes, reply.written_messages
        )
    reply.release()


def _look_for_headers(body: memoryview) -> bool:
    """Whether plain records may be delayed: one look for that and for trace ids, at all of them."""
    found, asking = _MARKS.may_be_in(body), requester.get()
    if asking is not None:
        asking.may_bring_traces = found
    return found and may_hold_delays(body)


async def _storage_refusal(broker: Broker, namespace: Namespace) -> GoQueueError | None:
    try:
        await broker.tenants.check_storage(broker.tenants.get(namespace.tenant_id))
    except GoQueueError as error:
        return error
    return None


class _Sent(NamedTuple):
    """What a request has for one partition."""

    request: ProduceRequest
    version: int
    partition: Partition
    batches: memoryview
    waits: bool
    may_delay: bool


async def _append(broker: Broker, sent: _Sent) -> tuple[Appended, asyncio.Future[None] | None]:
    """Also what the coordinator of its transaction writes meanwhile, if there is one."""
    request, version, partition, batches, waits, may_delay = sent
    admitted, left_out = None, None
    if partition.log.settings.validates:
        left_out = await broker.check_schemas(
            partition, batches, transactional_id=request.transactional_id
        )
    if may_delay or _is_compressed(batches):
        delayed = await _append_delayed(broker, sent, left_out)
        if delayed is not None:
            return delayed
    if request.transactional_id is not None or is_transactional(batches):
        admitted = await _admit(broker, request, version, partition, batches)
    appended = broker.append(partition, batches, waits=waits, is_checked=True, left_out=left_out)
    return appended, admitted


def _is_compressed(batches: memoryview) -> bool:
    """Too short for a batch: whoever appends it says so."""
    return len(batches) > CODEC_AT and bool(batches[CODEC_AT] & CODEC_MASK)


async def _append_delayed(
    broker: Broker, sent: _Sent, left_out: LeftOut | None
) -> tuple[Appended, asyncio.Future[None] | None] | None:
    """Batches of which some messages are for later; None: there are none."""
    request, version, partition, batches, _, _ = sent
    if not partition.log.settings.goqueue_delayed_messages_max:
        return None
    appends, admitted = broker.delays.appends, None
    if _is_compressed(batches) and not await appends.search.finds(partition, batches):
        return None

    async def admit() -> None:
        nonlocal admitted
        admitted = await _admit(broker, request, version, partition, batches)

    in_transaction = request.transactional_id is not None or is_transactional(batches)
    parts = await appends.append(
        partition,
        batches,
        timeout_seconds=request.timeout_ms / 1000,
        admit=admit if in_transaction else None,
        left_out=left_out,
    )
    return None if parts is None else (parts.data, admitted)


async def _topic(
    broker: Broker, access: Access, transactional_id: str | None, name: str | UUID
) -> Topic | GoQueueError:
    """The topic, to which the client may write; one that is missing is created."""
    try:
        if isinstance(name, UUID):
            topic = broker.topic_by_id(name)
            if access.is_enforced:
                _check_access_by_id(access, transactional_id, topic)
            return topic
        if access.is_enforced:
            _check_access(access, transactional_id, name)
        found = broker.metadata.find(name)
        if found is not None:
            return found
        access.demand_creation(name)
        return await broker.ensure_topic(name)
    except GoQueueError as error:
        return error


def _check_access(access: Access, transactional_id: str | None, topic: str) -> None:
    if transactional_id is not None:
        access.demand_transactional_id(Operation.WRITE, transactional_id)
    access.demand_topic(Operation.WRITE, topic)


def _check_access_by_id(access: Access, transactional_id: str | None, topic: Topic) -> None:
    """Who may not write to it does not learn its name."""
    try:
        _check_access(access, transactional_id, topic.name)
    except TopicAccessDenied as error:
        raise TopicIdNotFound(f"there is no topic with id {topic.topic_id}") from error


async def _partition(broker: Broker, topic: Topic | GoQueueError, index: int) -> Partition:
    if isinstance(topic, GoQueueError):
        raise topic
    if topic.is_internal:
        raise PolicyViolation(f"{topic.name} is written by the broker only")
    return broker.partitions.find_open(topic.name, index) or await broker.partitions.get(
        topic, index
    )


async def _admit(
    broker: Broker,
    request: ProduceRequest,
    version: int,
    partition: Partition,
    batches: memoryview,
) -> asyncio.Future[None] | None:
    """Let a transactional batch pass only as part of its producer's open transaction.

    The batch is to be appended in the same step.  The reply must wait for the future given.
    """
    partition.check_leader()
    if request.transactional_id is None or not is_transactional(batches):
        raise InvalidTransactionState(
            "a transactional request holds transactional batches, and no other does"
        )
    first = header_at(batches, 0)
    if first.base_sequence < 0:
        raise InvalidRecord("a transactional batch has a sequence")
    adds = version >= ADDS_PARTITIONS_FROM
    who, admitted = ProducerIdentity(first.producer_id, first.producer_epoch), None
    if broker.transaction_coordinator(request.transactional_id) == broker.node_id:
        await broker.transactions.wait_ready(request.transactional_id)
        at = TopicPartition(TopicName(partition.topic), partition.index)
        admitted = broker.transactions.admit(request.transactional_id, who, at, adds=adds)
    else:
        await broker.transaction_peers.admit(request.transactional_id, who, partition, adds=adds)
    # After the coordinator's word, as in Kafka: a producer that was shut out is told so.
    if adds and first.base_sequence and not partition.log.producers.find(first.producer_id):
        raise OutOfOrderSequence(
            f"producer {first.producer_id} begins in {partition} with sequence"
            f" {first.base_sequence}, not 0"
        )
    return admitted


def _code(error: GoQueueError, version: int) -> ErrorCode:
    """Of what a transaction forbids, what a client of this version knows how to get out of."""
    match error:
        case InvalidTransactionState() if version >= ABORTABLE_FROM:
            return ErrorCode.transaction_abortable
        case ConcurrentTransactions() if version < ADDS_PARTITIONS_FROM:
            return ErrorCode.not_enough_replicas  # it tries again
        case TransactionError():
            return data_code(error)
        case NotCoordinator():  # of the transaction: this node cannot ask it, and the client may
            return ErrorCode.not_enough_replicas
        case _:
            return kafka_code(error)


def _batches(item: ProducePartition) -> memoryview:
    if not item.records:
        raise InvalidRecord("no record batch in the request")
    if has_reserved_producer(item.records):
        raise InvalidRecord("producer ids from 2^62 on are the broker's own: use InitProducerId")
    return item.records


def _refuse(
    index: int, code: ErrorCode, error: GoQueueError, leader: LeaderAndEpoch | None
) -> ProducePartitionResponse:
    return ProducePartitionResponse(
        index=index,
        error_code=code.value,
        error_message=str(error),
        record_errors=_bad_records(error),
        current_leader=leader,
    )


def _bad_records(error: GoQueueError) -> list[RecordError]:
    """Which records were at fault: a client tells the others that they failed beside them."""
    if not isinstance(error, InvalidRecords):
        return []
    return [RecordError(index, error.rule) for index in error.indexes]


def _in_time(wait: asyncio.Future[None], timeout_seconds: float) -> asyncio.Future[None]:
    """As `wait`, or failed when the time is over.

    With a timer of its own: a transaction adds a partition once, and is seldom refused.
    """
    bounded: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def expire() -> None:
        bounded.set_exception(
            TimedOut("the log of transactions did not commit in time, since a disk is slow")
        )

    def settle(done: asyncio.Future[None]) -> None:
        timer.cancel()
        error = StorageFailed("cancelled") if done.cancelled() else done.exception()
        if bounded.done():
            return
        if error is None:
            bounded.set_result(None)
        else:
            bounded.set_exception(error)

    timer = asyncio.get_running_loop().call_later(timeout_seconds, expire)
    wait.add_done_callback(settle)
    return bounded


class _Reply:
    """Gathers the partitions' results and fills the slot when the last commit is in."""

    def __init__(
        self,
        broker: Broker,
        version: int,
        acks: int,
        slot: ReplySlot,
        waits: bool,
        timeout_seconds: float,
    ) -> None:
        self.results: Results = {}
        self.written_bytes = self.written_messages = self.throttle_ms = 0
        self.namespace: Namespace | None = None  # of the client's tenant
        self._broker = broker
        self._leaders: set[int] = set()  # that clients are sent to
        self._version = version
        self._acks = acks
        self._waits = waits  # for the commit
        self._timeout_seconds = timeout_seconds
        self._slot = slot
        self._outstanding = 1  # the request itself, until `release`

    def refuse(self, topic: str | UUID, index: int, code: ErrorCode, error: GoQueueError) -> None:
        leader = self._note_leader(find_leader(self._broker, topic, index, error))
        self.results[topic].append(_refuse(index, code, error, leader))

    def _note_leader(self, leader: LeaderAndEpoch | None) -> LeaderAndEpoch | None:
        if leader is not None:
            self._leaders.add(leader.leader_id)
        return leader

    def note_written(
        self,
        results: list[ProducePartitionResponse],
        index: int,
        partition: Partition,
        appended: Appended,
        admitted: asyncio.Future[None] | None,
    ) -> None:
        self.written_messages += appended.last_offset - appended.first_offset + 1
        results.append(
            ProducePartitionResponse(
                index=index,
                base_offset=appended.first_offset,
                log_append_time_ms=appended.append_time,
                log_start_offset=partition.log.start_offset,
            )
        )
        if self._waits:
            committed = partition.wait_committed(appended.last_offset, self._timeout_seconds)
            self._wait_for(committed, results)
        self.wait_for(admitted, results)

    def wait_for(
        self, noted: asyncio.Future[None] | None, results: list[ProducePartitionResponse]
    ) -> None:
        """The last of the results rests on this, in the log of transactions."""
        if noted is not None:
            self._wait_for(_in_time(noted, self._timeout_seconds), results)

    def _wait_for(
        self, committed: asyncio.Future[None], results: list[ProducePartitionResponse]
    ) -> None:
        place = len(results) - 1
        self._outstanding += 1
        committed.add_done_callback(lambda done: self._note_committed(done, results, place))

    def _note_committed(
        self, done: asyncio.Future[None], results: list[ProducePartitionResponse], place: int
    ) -> None:
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or error is not None:
            known = error if isinstance(error, GoQueueError) else StorageFailed(str(error))
            leader = self._note_leader(leader_of(known))
            results[place] = _refuse(results[place].index, kafka_code(known), known, leader)
        self.release()

    def release(self) -> None:
        self._outstanding -= 1
        if self._outstanding:
            return
        if self._acks == ACKS_NONE:
            self._slot.fill(None)
            return
        topics = [ProduceTopicResponse(name, results) for name, results in self.results.items()]
        if self.namespace is not None:
            topics = show_produce(topics, self.namespace)
        endpoints = leader_endpoints(self._broker, self._leaders) if self._leaders else ()
        self._slot.fill(
            [
                encode_produce_response(
                    self._version,
                    topics,
                    throttle_time_ms=self.throttle_ms,
                    node_endpoints=endpoints,
                )
            ]
        )
