"""Transactions: producers, what they write, and how it ends."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Annotated, Any, Final

from litestar.params import JSONBody, Parameter, QueryParameter

from goqueue.api.transactions import (
    TRANSACTIONAL_ID_LENGTH_MAX,
    AcksAdded,
    AddAcks,
    AddOffsets,
    AddPartition,
    Begun,
    ForceAbort,
    Heartbeat,
    Identity,
    InitProducer,
    InTransaction,
    ProducerBody,
    Status,
    TransactionBody,
    TransactionList,
    TransactionStats,
)
from goqueue.broker import Broker
from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.messages.transactional_publish import transaction_name
from goqueue.broker.transactions.acks import Refused
from goqueue.groups import CommitRequest, OffsetToCommit
from goqueue.model import ids
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.model.names import topic_name
from goqueue.model.times import time_text
from goqueue.model.topic_partition import TopicPartition
from goqueue.server.http.asgi.dependencies import TheBroker, TheTransactionMessages
from goqueue.server.http.errors import Detailed
from goqueue.server.http.gathering import answers, check_shards, gather
from goqueue.server.http.routes.family import Routes
from goqueue.txn import ProducerIdentity, State, Transaction

PAGE_MAX: Final = 10_000
REFUSALS_MAX: Final = 100  # that are told one by one

MEANINGS: Final = {
    404: "No such producer, transaction, topic, partition or delivery.",
    409: "Another producer has taken over, or the transaction is in another state.",
}

NamePath = Annotated[str, Parameter(description="The transactional id.", max_length=1_000)]


routes = Routes("transactions", MEANINGS)


def who(data: Identity) -> ProducerIdentity:
    return ProducerIdentity(data.producer_id, data.epoch)


# --- producers ----------------------------------------------------------------------------------


@routes.post("/producers/init", "Start a producer and fence the one before", 409)
async def init_producer(broker: TheBroker, data: JSONBody[InitProducer]) -> ProducerBody:
    """What an earlier producer with this id left open is aborted first."""
    who = await broker.transactions.init(
        data.transactional_id, timeout_ms=data.transaction_timeout_ms
    )
    return ProducerBody(who.producer_id, who.epoch)


@routes.post(
    "/producers/{producer_id:int}/heartbeat", "Ask whether a producer may still write", 404, 409
)
async def producer_heartbeat(
    broker: TheBroker,
    producer_id: Annotated[int, Parameter(description="As `init` gave it.")],
    data: JSONBody[Heartbeat],
) -> Status:
    """409 once another has taken over.  Nothing depends on it: transactions end by their time."""
    transaction = await broker.transactions.check(
        data.transactional_id, ProducerIdentity(producer_id, data.epoch)
    )
    assert transaction.producer_id == producer_id
    return Status("ok")


# --- transactions -------------------------------------------------------------------------------


@routes.post("/transactions/begin", "Begin a transaction", 404, 409)
async def begin_transaction(broker: TheBroker, data: JSONBody[Identity]) -> Begun:
    transaction = await broker.transactions.begin(data.transactional_id, who(data))
    return Begun(transaction_name(transaction))


@routes.post("/transactions/add-partition", "Add a partition to a transaction", 404, 409)
async def add_partition_to_transaction(
    broker: TheBroker, transaction_messages: TheTransactionMessages, data: JSONBody[AddPartition]
) -> Status:
    """Not needed before `publish`, which does it."""
    broker.topic(topic_name(data.topic)).check_partition(data.partition)
    await transaction_messages.check_open(data.transactional_id, who(data), data.transaction_id)
    places = [ids.TopicPartition(TopicName(data.topic), data.partition)]
    await broker.transactions.add_partitions(data.transactional_id, who(data), places)
    return Status("added")


@routes.post("/transactions/offsets", "Commit a group's offsets with a transaction", 404, 409)
async def add_offsets_to_transaction(
    broker: TheBroker, transaction_messages: TheTransactionMessages, data: JSONBody[AddOffsets]
) -> Status:
    """Consume, process, publish and move on as one: all of it happens or nothing."""
    await transaction_messages.check_open(data.transactional_id, who(data), data.transaction_id)
    offsets = tuple(
        OffsetToCommit(
            TopicName(topic_name(each.topic)),
            each.partition,
            Offset(each.offset),
            metadata=each.metadata,
        )
        for each in data.offsets
    )
    request = CommitRequest(
        group_id=GroupId(data.group),
        offsets=offsets,
        member_id=data.member_id,
        generation=data.generation,
    )
    results = await broker.transactions.add_offsets(
        data.transactional_id, who(data), request, adds_group=True
    )
    for result in results:
        if result.error is not None:
            raise result.error
    return Status("added")


@routes.post("/transactions/acks", "Ack a queue's messages with a transaction", 404, 409)
async def add_acks_to_transaction(
    broker: TheBroker, transaction_messages: TheTransactionMessages, data: JSONBody[AddAcks]
) -> AcksAdded:
    """The messages stay yours until the transaction ends, however long that takes: committed, they
    are acked; aborted, they are in flight again for their whole visibility time, with the same
    receipts.  When one receipt is not good none is taken, and `details` says which.
    """
    await transaction_messages.check_open(data.transactional_id, who(data), data.transaction_id)
    transactions = broker.transactions
    refused = await transactions.add_acks(data.transactional_id, who(data), data.receipt_handles)
    if refused:
        raise Detailed(next(iter(refused.values())), _refusals(data.receipt_handles, refused))
    transaction = transactions.ahead.get(data.transactional_id)
    (count,) = await transactions.count_acks([transaction])
    return AcksAdded("added", count)


def _refusals(handles: Sequence[str], refused: Refused) -> dict[str, Any]:
    some = list(refused.items())[:REFUSALS_MAX]
    told = [
        {"index": place, "receipt_handle": handles[place], "code": error.code}
        for place, error in some
    ]
    return {"refused": told, "refused_count": len(refused)}


@routes.post("/transactions/commit", "Commit a transaction", 404, 409)
async def commit_transaction(
    broker: TheBroker, transaction_messages: TheTransactionMessages, data: JSONBody[InTransaction]
) -> Status:
    """May be repeated until it is answered."""
    return await _end(broker, transaction_messages, data, commits=True)


@routes.post("/transactions/abort", "Abort a transaction", 404, 409)
async def abort_transaction(
    broker: TheBroker, transaction_messages: TheTransactionMessages, data: JSONBody[InTransaction]
) -> Status:
    """May be repeated until it is answered."""
    return await _end(broker, transaction_messages, data, commits=False)


async def _end(
    broker: TheBroker,
    transaction_messages: TheTransactionMessages,
    data: InTransaction,
    *,
    commits: bool,
) -> Status:
    transaction = await broker.transactions.check(data.transactional_id, who(data))
    if data.transaction_id is not None and transaction.state is State.ONGOING:
        await transaction_messages.check_open(data.transactional_id, who(data), data.transaction_id)
    await broker.transactions.end(
        data.transactional_id, who(data), commits=commits, bumps_epoch=False
    )
    return Status("committed" if commits else "aborted")


# --- for operators ------------------------------------------------------------------------------


@routes.get("/transactions", "List transactions")
async def list_transactions(
    broker: TheBroker,
    in_state: Annotated[
        str | None, QueryParameter(name="state", description="Only in this state.")
    ] = None,
    also_idle: Annotated[
        bool, QueryParameter(name="all", description="Also ids without an open transaction.")
    ] = False,
    limit: Annotated[int, QueryParameter(ge=1, le=PAGE_MAX)] = PAGE_MAX,
) -> TransactionList:
    """Those of all nodes."""
    parts = await gather(
        broker,
        broker.transaction_coordinators(),
        lambda shards: TransactionsHere(shards, in_state, also_idle, limit),
    )
    bodies = list(chain.from_iterable(parts))[:limit]
    return TransactionList(bodies, len(bodies))


class TransactionsHere(Verb[list[TransactionBody]], frozen=True):
    """The transactions that a node coordinates."""

    name = "list_transactions"
    reply_type = list[TransactionBody]

    shards: list[int]
    in_state: str | None
    also_idle: bool
    limit: int


@answers(TransactionsHere)
async def _list_here(broker: Broker, verb: TransactionsHere) -> list[TransactionBody]:
    check_shards(broker.transactions.shards, verb.shards)
    in_state, also_idle = verb.in_state, verb.also_idle
    async with broker.transactions.barrier, broker.queues.barrier:  # its acks are theirs
        machine = broker.transactions.ahead
        found = machine.all() if also_idle or in_state else [*machine.ongoing, *machine.prepared]
        some = [each for each in found if in_state is None or each.state == in_state][: verb.limit]
        counts = await broker.transactions.count_acks(some)
        return [_body(each, acks) for each, acks in zip(some, counts, strict=True)]


def _body(transaction: Transaction, acks: int | None) -> TransactionBody:
    is_open = transaction.is_open
    return TransactionBody(
        transaction_id=transaction_name(transaction) if is_open else None,
        transactional_id=transaction.transactional_id,
        producer_id=transaction.producer_id,
        epoch=transaction.epoch,
        state=transaction.state.value,
        start_time=time_text(transaction.started_at) if is_open else None,
        timeout_ms=transaction.timeout_ms,
        partitions=[
            TopicPartition(topic, index) for topic, index in sorted(transaction.partitions)
        ],
        groups=sorted(transaction.groups),
        acks=acks,
    )


@routes.get("/transactions/stats", "How many transactions there are and were")
async def transaction_stats(broker: TheBroker) -> TransactionStats:
    """Of all nodes."""
    parts = await gather(broker, broker.transaction_coordinators(), TransactionStatsHere)
    by_state: Counter[str] = Counter()
    for each in parts:
        by_state.update(each.transactions_by_state)
    return TransactionStats(
        active_transactions=sum(each.active_transactions for each in parts),
        transactions_by_state=dict(by_state),
        oldest_age_ms=max(each.oldest_age_ms for each in parts),
        started=sum(each.started for each in parts),
        committed=sum(each.committed for each in parts),
        aborted=sum(each.aborted for each in parts),
    )


class TransactionStatsHere(Verb[TransactionStats], frozen=True):
    """How many transactions a node coordinates."""

    name = "transaction_stats"
    reply_type = TransactionStats

    shards: list[int]


@answers(TransactionStatsHere)
async def _stats_here(broker: Broker, verb: TransactionStatsHere) -> TransactionStats:
    check_shards(broker.transactions.shards, verb.shards)
    machine = broker.transactions.ahead  # counts, which are nobody's state
    by_state = dict.fromkeys((state.value for state in State), 0)
    for transaction in machine.all():
        by_state[transaction.state.value] += 1
    return TransactionStats(
        active_transactions=len(machine.ongoing),
        transactions_by_state=by_state,
        oldest_age_ms=broker.transactions.oldest_age_ms(),
        started=machine.counts.started,
        committed=machine.counts.committed,
        aborted=machine.counts.aborted,
    )


@routes.get("/transactions/ids/{transactional_id:str}", "Describe a transactional id", 404)
async def describe_transaction(broker: TheBroker, transactional_id: NamePath) -> TransactionBody:
    return await _describe(broker, transactional_id)


@routes.get(
    "/transactions/describe", "Describe a transactional id, whatever characters it has", 404
)
async def describe_transaction_by_query(
    broker: TheBroker,
    transactional_id: Annotated[
        str,
        QueryParameter(
            min_length=1, max_length=TRANSACTIONAL_ID_LENGTH_MAX, description="Of any producer."
        ),
    ],
) -> TransactionBody:
    return await _describe(broker, transactional_id)


async def _describe(broker: TheBroker, transactional_id: str) -> TransactionBody:
    async with broker.transactions.barrier_of(transactional_id), broker.queues.barrier:
        transaction = broker.transactions.ahead.get(transactional_id)
        (acks,) = await broker.transactions.count_acks([transaction])
        return _body(transaction, acks)


@routes.post(
    "/transactions/ids/{transactional_id:str}/abort",
    "Abort a transaction that hangs, and fence its producer",
    404,
    409,
)
async def force_abort_transaction(broker: TheBroker, transactional_id: NamePath) -> Status:
    return await _force_abort(broker, transactional_id)


@routes.post(
    "/transactions/force-abort",
    "Abort a transaction that hangs, whatever characters its id has",
    404,
    409,
)
async def force_abort_by_body(broker: TheBroker, data: JSONBody[ForceAbort]) -> Status:
    return await _force_abort(broker, data.transactional_id)


async def _force_abort(broker: TheBroker, transactional_id: str) -> Status:
    aborted = await broker.transactions.abort(transactional_id)
    return Status("aborted" if aborted else "nothing to abort")
