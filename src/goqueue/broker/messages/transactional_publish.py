"""Publishing messages in a transaction, for callers that do not use Kafka's protocol.

A single message may carry a sequence: 0 for the producer's first to a partition in its epoch, then
one more each time.  A repetition is then answered with the first one's offset and not written
again.  Without one it is the caller's affair that nothing is sent twice.

Who asks, asks the transaction's coordinator.  What other nodes lead they append
(`transactional_elsewhere`), when the partition is in the transaction, durably.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from goqueue.broker.barrier import settle_refusals
from goqueue.broker.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.preparation import (
    MessageCheck,
    PartitionRotation,
    fitting_runs,
    partition_of,
)
from goqueue.broker.messages.transactional_elsewhere import (
    AppendedThere,
    TransactionAppends,
    describe_append,
)
from goqueue.cluster import Topic
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Timestamp, TopicName, TopicPartition
from goqueue.model.names import refuse_internal
from goqueue.model.record import Record
from goqueue.queue.dead_letter import dead_letter_topic
from goqueue.txn import ProducerIdentity, State, Transaction
from goqueue.txn.errors import InvalidTransactionState

NO_SEQUENCE = -1


class PublishedInTransaction(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    duplicate: bool
    dead_letter_topic: str | None = None  # it is there, since it is not what its schema says


class TransactionMessages:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._rotation = PartitionRotation()
        self._appends = TransactionAppends(broker)

    @settle_refusals
    async def publish(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        topic: str,
        message: OutgoingMessage,
        *,
        sequence: int = NO_SEQUENCE,
        transaction_id: str | None = None,
    ) -> PublishedInTransaction:
        """Write into the open transaction; durable on return, visible when it is committed."""
        refuse_internal(topic)
        found = await self._broker.ensure_topic(topic)
        index = self._partition(found, message)
        batch = self._batch(who, [message], sequence)
        transactions = self._broker.transactions
        leader = self._appends.leader_elsewhere(found, index)
        if leader is not None:
            as_of = await self._admit(transactional_id, who, topic, [index], transaction_id)
            await transactions.wait_durable(transactional_id)
            (there,) = await self._appends.append(
                leader, found, index, who, as_of, [batch], transactional_id
            )
            return _describe(found, index, there)
        partition = await self._broker.partition(topic, index)
        left_out = await self._broker.check_schemas(
            partition, batch, transactional_id=transactional_id
        )

        async def admit() -> None:
            await self._admit(transactional_id, who, topic, [index], transaction_id)

        await admit()
        (appended,) = await self._appends.append_here(partition, [batch], [left_out], admit)
        await partition.wait_committed(appended.last_offset, self._timeout_seconds)
        await transactions.wait_durable(transactional_id)
        return _describe(found, index, describe_append(appended, left_out))

    @property
    def _timeout_seconds(self) -> float:
        return self._broker.config.http.publish_timeout_ms / 1000

    @settle_refusals
    async def publish_many(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        topic: str,
        messages: Sequence[OutgoingMessage],
        *,
        transaction_id: str | None = None,
    ) -> list[PublishedInTransaction]:
        """As `publish`, with one wait for all.  When one is refused, none is written."""
        refuse_internal(topic)
        found = await self._broker.ensure_topic(topic)
        placed = self._place(found, messages)
        runs = {
            index: list(fitting_runs(messages, places, found.settings.max_message_bytes))
            for index, places in placed.items()
        }
        batches_of = {
            index: [
                self._batch(who, [messages[place] for place in run], NO_SEQUENCE) for run in some
            ]
            for index, some in runs.items()
        }
        elsewhere = {i for i in placed if self._appends.leader_elsewhere(found, i) is not None}
        partitions = {i: await self._broker.partition(topic, i) for i in placed.keys() - elsewhere}
        left_out = {
            index: [
                await self._broker.check_schemas(
                    partition, batch, transactional_id=transactional_id
                )
                for batch in batches_of[index]
            ]
            for index, partition in partitions.items()
        }
        as_of = await self._admit(transactional_id, who, topic, list(placed), transaction_id)
        written: dict[int, list[AppendedThere]] = {}
        commits = []

        async def admit() -> None:
            await self._admit(transactional_id, who, topic, list(placed), transaction_id)

        for index, partition in partitions.items():
            appended = await self._appends.append_here(
                partition, batches_of[index], left_out[index], admit
            )
            written[index] = list(map(describe_append, appended, left_out[index]))
            commits.append(
                partition.wait_committed(appended[-1].last_offset, self._timeout_seconds)
            )
        await asyncio.gather(*commits, self._broker.transactions.wait_durable(transactional_id))
        there = {index: batches_of[index] for index in elsewhere}
        written |= await self._appends.append_all(found, who, as_of, there, transactional_id)
        return _in_order(found, runs, written)

    async def _admit(
        self,
        transactional_id: str,
        who: ProducerIdentity,
        topic: str,
        partitions: Sequence[int],
        transaction_id: str | None,
    ) -> Timestamp:
        """Return when the producer may append, in the same step to what this node leads.

        Gives a moment before the end of the transaction will be decided.
        """
        transactions = self._broker.transactions
        await transactions.wait_ready(transactional_id)
        self._check_open(transactional_id, who, transaction_id)
        for index in partitions:
            at = TopicPartition(TopicName(topic), index)
            transactions.admit(transactional_id, who, at, adds=True)
        return transactions.ahead.get(transactional_id).changed_at

    def _place(self, topic: Topic, messages: Sequence[OutgoingMessage]) -> dict[int, list[int]]:
        """Partition to places in the request; those without a key go together."""
        check = MessageCheck(topic, self._broker.environment.clock.now())
        drawn = self._rotation.next_partition(topic)
        placed: dict[int, list[int]] = {}
        for place, message in enumerate(messages):
            problem = check.problem(message)
            if problem is not None:
                raise InvalidRequest(f"messages[{place}]: {problem}") from problem
            index = partition_of(message, topic)
            placed.setdefault(drawn if index is None else index, []).append(place)
        return placed

    @settle_refusals
    async def check_open(
        self, transactional_id: str, who: ProducerIdentity, transaction_id: str | None
    ) -> None:
        """Refuse when there is no open transaction, or when another one is meant."""
        self._check_open(transactional_id, who, transaction_id)

    async def wait_settled(self, about: object = None) -> None:
        """Return when everything that was decided about a transactional id is durable."""
        await self._broker.transactions.wait_settled(about)

    def _check_open(
        self, transactional_id: str, who: ProducerIdentity, transaction_id: str | None
    ) -> None:
        transaction = self._broker.transactions.ahead.check(transactional_id, who)
        if transaction.state is not State.ONGOING:
            raise InvalidTransactionState(f"{transactional_id!r} has no transaction open")
        if transaction_id is not None and transaction_id != transaction_name(transaction):
            raise InvalidTransactionState(
                f"{transaction_id!r} is over; {transaction_name(transaction)!r} is open"
            )

    def _partition(self, topic: Topic, message: OutgoingMessage) -> int:
        if message.partition is not None:
            topic.check_partition(message.partition)
        index = partition_of(message, topic)
        return self._rotation.next_partition(topic) if index is None else index

    def _batch(
        self, who: ProducerIdentity, messages: Sequence[OutgoingMessage], sequence: int
    ) -> bytearray:
        now = self._broker.environment.clock.now()
        records = [
            Record(
                0,
                now if each.timestamp is None else each.timestamp,
                each.key,
                each.value,
                each.headers,
            )
            for each in messages
        ]
        producer = (who.producer_id, who.epoch, sequence)
        return batches.encode(records, attributes=TRANSACTIONAL, producer=producer)


def _in_order(
    topic: Topic,
    runs: Mapping[int, Sequence[Sequence[int]]],
    written: Mapping[int, Sequence[AppendedThere]],
) -> list[PublishedInTransaction]:
    """By the messages' places in the request; `runs` are places."""
    found = {
        place: _describe(topic, index, batch, step)
        for index, some in runs.items()
        for run, batch in zip(some, written[index], strict=True)
        for step, place in enumerate(run)
    }
    return [found[place] for place in sorted(found)]


def _describe(
    topic: Topic, index: int, batch: AppendedThere, step: int = 0
) -> PublishedInTransaction:
    is_out = step in batch.left_out
    name = dead_letter_topic(topic.name) if is_out else None
    return PublishedInTransaction(index, batch.first_offset + step, batch.is_repeat, name)


def transaction_name(transaction: Transaction) -> str:
    """One transaction among all that its producer ever had."""
    return f"txn-{transaction.producer_id}-{transaction.epoch}-{transaction.started_at}"
