"""Transactions from an operator's side: list, describe, and abort one that hangs."""

from collections.abc import Callable
from typing import Final

from kio.schema.describe_producers.v0.request import DescribeProducersRequest
from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import (
    DescribeTransactionsResponse,
    TopicData,
)
from kio.schema.describe_transactions.v0.response import TransactionState as DescribedTransaction
from kio.schema.errors import ErrorCode
from kio.schema.list_transactions.v2.request import ListTransactionsRequest
from kio.schema.list_transactions.v2.response import (
    ListTransactionsResponse,
)
from kio.schema.list_transactions.v2.response import TransactionState as ListedTransaction
from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from goqueue.cluster.replication import Follower
from goqueue.groups import name_filter
from goqueue.groups.errors import InvalidRegularExpression
from goqueue.log import Producer
from goqueue.model.errors import GoQueueError, InvalidRequest, NotCoordinator
from goqueue.model.ids import Timestamp
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import coordinated_transaction
from goqueue.server.kafka.errors import coordinator_code, kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.txn import ProducerIdentity, State, Transaction
from goqueue.wire.messages import build, duration, moment

_NAMES: Final = {state: state.value.title().replace("_", "") for state in State}
_STATES: Final = {name: state for state, name in _NAMES.items()}


# --- ListTransactions -------------------------------------------------------------------------


async def handle_list_transactions(
    context: Context, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """Those that this node coordinates: clients ask all nodes."""
    producer_ids = request.producer_id_filters
    known = {_STATES[name] for name in request.state_filters if name in _STATES}
    unknown = tuple(name for name in request.state_filters if name not in _STATES)
    if request.state_filters and not known:
        return build(ListTransactionsResponse, unknown_state_filters=unknown)
    try:
        is_named = _name_filter(request.transactional_id_pattern)
    except InvalidRequest:
        return build(ListTransactionsResponse, error_code=ErrorCode.invalid_regular_expression)
    now, may = context.broker.environment.clock.steady(), context.access.allows_transactional_id
    states: tuple[ListedTransaction, ...] = ()
    try:
        async with context.broker.transactions.barrier:
            states = tuple(
                build(
                    ListedTransaction,
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    transaction_state=_NAMES[each.state],
                )
                for each in context.broker.transactions.ahead.all()
                if (not known or each.state in known)
                and (not producer_ids or each.producer_id in producer_ids)
                and (request.duration_filter < 0 or _age_ms(each, now) > request.duration_filter)
                and is_named(each.transactional_id)
                and may(Operation.DESCRIBE, each.transactional_id)
            )
    except NotCoordinator:
        states = ()
    except GoQueueError as error:
        return build(ListTransactionsResponse, error_code=coordinator_code(error))
    return build(ListTransactionsResponse, unknown_state_filters=unknown, transaction_states=states)


def _name_filter(pattern: str | None) -> Callable[[str], bool]:
    if not pattern:
        return lambda _: True
    try:
        return name_filter(pattern)
    except InvalidRegularExpression as error:
        raise InvalidRequest(f"{pattern!r} is no regular expression: {error}") from error


def _age_ms(transaction: Transaction, now: Timestamp) -> int:
    """How long it has been open; -1 when it is not."""
    is_open = transaction.state is State.ONGOING or transaction.state.is_prepared
    return now - transaction.started_at if is_open else -1


# --- DescribeTransactions ---------------------------------------------------------------------


async def handle_describe_transactions(
    context: Context, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    names = dict.fromkeys(request.transactional_ids)
    try:
        async with context.broker.transactions.barrier_of(*names):
            found = [_describe(context, each) async for each in in_turns(names)]
    except GoQueueError as error:
        found = [_refuse(each, coordinator_code(error)) for each in names]
    return build(DescribeTransactionsResponse, transaction_states=tuple(found))


def _describe(context: Context, transactional_id: str) -> DescribedTransaction:
    """With those of its topics that the client may see."""
    broker = context.broker
    try:
        coordinated_transaction(context, transactional_id, Operation.DESCRIBE)
    except GoQueueError as error:
        return _refuse(transactional_id, coordinator_code(error))
    transaction = broker.transactions.ahead.find(transactional_id)
    if transaction is None:
        return _refuse(transactional_id, ErrorCode.transactional_id_not_found)
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    is_open = transaction.state is State.ONGOING or transaction.state.is_prepared
    return build(
        DescribedTransaction,
        transactional_id=transactional_id,
        transaction_state=_NAMES[transaction.state],
        transaction_timeout=duration(transaction.timeout_ms),
        transaction_start_time=moment(transaction.started_at if is_open else -1),
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=tuple(
            build(TopicData, topic=topic, partitions=tuple(indexes))
            for topic, indexes in topics.items()
            if context.access.allows_topic(Operation.DESCRIBE, topic)
        ),
    )


def _refuse(transactional_id: str, code: ErrorCode) -> DescribedTransaction:
    return build(DescribedTransaction, transactional_id=transactional_id, error_code=code)


# --- DescribeProducers ------------------------------------------------------------------------


async def handle_describe_producers(
    context: Context, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    topics = []
    for topic in request.topics:
        partitions = [
            await _producers_of(context, topic.name, index) for index in topic.partition_indexes
        ]
        topics.append(build(TopicResponse, name=topic.name, partitions=tuple(partitions)))
    return build(DescribeProducersResponse, topics=tuple(topics))


async def _producers_of(context: Context, topic: str, index: int) -> PartitionResponse:
    """At the leader or a follower, as in Kafka: `kafka-transactions.sh find-hanging` asks a node
    about all replicas that it has."""
    broker = context.broker
    try:
        context.access.demand_topic(Operation.READ, topic)
        partition = broker.partitions.find_open(broker.topic(topic).name, index)
        if partition is None or not isinstance(partition.role, Follower):
            partition = await broker.partition(topic, index)
    except GoQueueError as error:
        return build(
            PartitionResponse,
            partition_index=index,
            error_code=kafka_code(error),
            error_message=str(error),
        )
    producers = (_producer_state(each) for each in partition.log.producers.all())
    return build(PartitionResponse, partition_index=index, active_producers=tuple(producers))


def _producer_state(producer: Producer) -> ProducerState:
    last = producer.batches[-1].last_sequence if producer.batches else -1
    start = producer.transaction_start
    return build(
        ProducerState,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=last,
        last_timestamp=producer.last_seen,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if start is None else start,
    )


# --- WriteTxnMarkers --------------------------------------------------------------------------


async def handle_write_txn_markers(
    context: Context, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse:
    """An operator's tool aborts what hangs.  Commits are decided by the coordinator alone."""
    results = [await _write_marker(context, marker) for marker in request.markers]
    return build(WriteTxnMarkersResponse, markers=tuple(results))


async def _write_marker(context: Context, marker: WritableTxnMarker) -> WritableTxnMarkerResult:
    topics = []
    for topic in marker.topics:
        partitions = [
            build(
                WritableTxnMarkerPartitionResult,
                partition_index=index,
                error_code=await _mark(context, marker, topic.name, index),
            )
            for index in topic.partition_indexes
        ]
        topics.append(
            build(WritableTxnMarkerTopicResult, name=topic.name, partitions=tuple(partitions))
        )
    return build(WritableTxnMarkerResult, producer_id=marker.producer_id, topics=tuple(topics))


async def _mark(context: Context, marker: WritableTxnMarker, topic: str, index: int) -> ErrorCode:
    may = context.access.allows_cluster
    if not (may(Operation.ALTER) or may(Operation.CLUSTER_ACTION)):
        return ErrorCode.cluster_authorization_failed
    if marker.transaction_result:
        return ErrorCode.invalid_request
    who = ProducerIdentity(marker.producer_id, marker.producer_epoch)
    try:
        await context.broker.transactions.abort_in_partition(who, topic, index)
    except GoQueueError as error:
        return coordinator_code(error)
    return ErrorCode.none
