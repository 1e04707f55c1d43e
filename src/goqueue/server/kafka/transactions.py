"""Transactions from a producer's side: what takes part in one, and how it ends.

InitProducerId        (`producers.py`) who may write; fences the one before
AddPartitionsToTxn    before the first write to a partition; since version 12 Produce does it
AddOffsetsToTxn       a group takes part; since version 5 TxnOffsetCommit does it
TxnOffsetCommit       the positions it will have if the transaction commits
EndTxn                commit or abort; since version 5 the producer gets a new epoch with it
"""

from typing import Final

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v4.response import AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from kio.schema.add_partitions_to_txn.v5.response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kio.schema.end_txn.v5.request import EndTxnRequest
from kio.schema.end_txn.v5.response import EndTxnResponse
from kio.schema.errors import ErrorCode
from kio.schema.txn_offset_commit.v5.request import TxnOffsetCommitRequest
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.groups.errors import StaleMemberEpoch
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset, TopicName, TopicPartition
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.coordinators import (
    coordinated_group,
    coordinated_transaction,
)
from goqueue.server.kafka.errors import coordinator_code
from goqueue.server.kafka.group_names import named_group
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import ProducerFenced, TransactionalIdNotFound
from goqueue.wire.messages import build

ABORTABLE_FROM: Final = 5  # of AddPartitionsToTxn: a partition that is not in the transaction
ADDS_GROUP_FROM: Final = 5  # of TxnOffsetCommit
BUMPS_EPOCH_FROM: Final = 5  # of EndTxn

Codes = dict[TopicPartition, ErrorCode]


def transaction_code(error: GoQueueError) -> ErrorCode:
    """Producers know an id that is not there as one that maps to no producer."""
    if isinstance(error, TransactionalIdNotFound):
        return ErrorCode.invalid_producer_id_mapping
    return coordinator_code(error)


def data_code(error: GoQueueError) -> ErrorCode:
    """As `transaction_code`, in answers that never name a fenced producer otherwise."""
    if isinstance(error, ProducerFenced):
        return ErrorCode.invalid_producer_epoch
    return transaction_code(error)


# --- AddPartitionsToTxn -----------------------------------------------------------------------


async def handle_add_partitions_to_txn(
    context: Context, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Answers at once: Produce waits until this is durable."""
    for transaction in request.transactions:
        await context.broker.transactions.wait_ready(transaction.transactional_id)
    results: list[AddPartitionsToTxnResult] = []
    for transaction in request.transactions:
        codes = _add(context, transaction)
        if transaction.verify_only or any(code is not ErrorCode.none for code in codes.values()):
            try:
                await context.broker.transactions.wait_settled()  # what it rests on is committed
            except GoQueueError as error:
                codes = dict.fromkeys(codes, transaction_code(error))
        results.append(_answer_added(transaction, codes))
    return build(AddPartitionsToTxnResponse, results_by_transaction=tuple(results))


def _add(context: Context, transaction: AddPartitionsToTxnTransaction) -> Codes:
    """All partitions or none: when one is unknown, the others are not attempted."""
    broker = context.broker
    wanted: list[TopicPartition] = [
        TopicPartition(TopicName(topic.name), index)
        for topic in transaction.topics
        for index in topic.partitions
    ]
    who = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    try:
        context.access.demand_transactional_id(Operation.WRITE, transaction.transactional_id)
    except GoQueueError as error:
        return dict.fromkeys(wanted, transaction_code(error))
    refused = {each: code for each in wanted if (code := _refusal(context, each, Operation.WRITE))}
    if refused:
        return {each: refused.get(each, ErrorCode.operation_not_attempted) for each in wanted}
    try:
        coordinated_transaction(context, transaction.transactional_id)
        if transaction.verify_only:
            return _verify(context, transaction.transactional_id, who, wanted)
        broker.transactions.announce_partitions_soon(transaction.transactional_id, who, wanted)
    except GoQueueError as error:
        return dict.fromkeys(wanted, transaction_code(error))
    return dict.fromkeys(wanted, ErrorCode.none)


def _verify(
    context: Context, transactional_id: str, who: ProducerIdentity, wanted: list[TopicPartition]
) -> Codes:
    machine = context.broker.transactions.ahead
    is_new = context.header.api_version >= ABORTABLE_FROM
    missing = ErrorCode.transaction_abortable if is_new else ErrorCode.invalid_txn_state
    return {
        each: ErrorCode.none if machine.is_in_transaction(transactional_id, who, each) else missing
        for each in wanted
    }


def _refusal(context: Context, place: TopicPartition, operation: Operation) -> ErrorCode | None:
    """Why nothing can be done to it; None if it can."""
    if not context.access.allows_topic(operation, place[0]):
        return ErrorCode.topic_authorization_failed
    topic = context.broker.metadata.find(place[0])
    if topic is None or topic.is_internal or not topic.has_partition(place[1]):
        return ErrorCode.unknown_topic_or_partition
    return None


def _answer_added(
    transaction: AddPartitionsToTxnTransaction, codes: Codes
) -> AddPartitionsToTxnResult:
    topics = (
        build(
            AddPartitionsToTxnTopicResult,
            name=topic.name,
            results_by_partition=tuple(
                build(
                    AddPartitionsToTxnPartitionResult,
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(TopicName(topic.name), index)],
                )
                for index in topic.partitions
            ),
        )
        for topic in transaction.topics
    )
    return build(
        AddPartitionsToTxnResult,
        transactional_id=transaction.transactional_id,
        topic_results=tuple(topics),
    )


# --- offsets ----------------------------------------------------------------------------------


async def handle_add_offsets_to_txn(
    context: Context, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    who = ProducerIdentity(request.producer_id, request.producer_epoch)
    try:
        context.access.demand_group(Operation.READ, request.group_id)
        await context.broker.transactions.add_group(
            coordinated_transaction(context, request.transactional_id),
            who,
            named_group(request.group_id),
        )
    except GoQueueError as error:
        return build(AddOffsetsToTxnResponse, error_code=transaction_code(error))
    return build(AddOffsetsToTxnResponse)


async def handle_txn_offset_commit(
    context: Context, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    codes: Codes = {}
    offsets: list[OffsetToCommit] = []
    denied = _deny_commit(context, request)
    for topic in request.topics:
        for wanted in topic.partitions:
            place = TopicPartition(TopicName(topic.name), int(wanted.partition_index))
            offset = OffsetToCommit(
                *place,
                Offset(wanted.committed_offset),
                wanted.committed_leader_epoch,
                wanted.committed_metadata or "",
            )
            refusal = denied or _refusal(context, place, Operation.READ)
            if refusal is not None:
                codes[place] = refusal
            else:
                offsets.append(offset)
    if offsets:
        codes |= await _add_offsets(context, request, tuple(offsets))
    return _offset_commit_response(request, codes)


def _deny_commit(context: Context, request: TxnOffsetCommitRequest) -> ErrorCode | None:
    """Of the whole request."""
    try:
        context.access.demand_transactional_id(Operation.WRITE, request.transactional_id)
        context.access.demand_group(Operation.READ, request.group_id)
    except GoQueueError as error:
        return transaction_code(error)
    return None


async def _add_offsets(
    context: Context, request: TxnOffsetCommitRequest, offsets: tuple[OffsetToCommit, ...]
) -> Codes:
    try:
        results = await context.broker.transactions.add_offsets(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            CommitRequest(
                group_id=coordinated_group(context, request.group_id, Operation.READ),
                offsets=offsets,
                member_id=request.member_id,
                generation=request.generation_id,
                instance_id=request.group_instance_id,
            ),
            adds_group=context.header.api_version >= ADDS_GROUP_FROM,
        )
    except StaleMemberEpoch:
        code = ErrorCode.illegal_generation  # this API knows no other word for it
    except GoQueueError as error:
        code = data_code(error)
    else:
        return {
            TopicPartition(each.topic, each.partition): ErrorCode.none
            if each.error is None
            else data_code(each.error)
            for each in results
        }
    return {TopicPartition(each.topic, each.partition): code for each in offsets}


def _offset_commit_response(
    request: TxnOffsetCommitRequest, codes: Codes
) -> TxnOffsetCommitResponse:
    topics = (
        build(
            TxnOffsetCommitResponseTopic,
            name=topic.name,
            partitions=tuple(
                build(
                    TxnOffsetCommitResponsePartition,
                    partition_index=wanted.partition_index,
                    error_code=codes[TopicPartition(TopicName(topic.name), wanted.partition_index)],
                )
                for wanted in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return build(TxnOffsetCommitResponse, topics=tuple(topics))


# --- EndTxn -----------------------------------------------------------------------------------


async def handle_end_txn(context: Context, request: EndTxnRequest) -> EndTxnResponse:
    try:
        who = await context.broker.transactions.end(
            coordinated_transaction(context, request.transactional_id),
            ProducerIdentity(request.producer_id, request.producer_epoch),
            commits=request.committed,
            bumps_epoch=context.header.api_version >= BUMPS_EPOCH_FROM,
            waits_for_markers=False,
        )
    except GoQueueError as error:
        return build(EndTxnResponse, error_code=transaction_code(error))
    return build(EndTxnResponse, producer_id=who.producer_id, producer_epoch=who.epoch)
