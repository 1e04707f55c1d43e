"""Publishing single messages in a transaction, for callers who do not speak Kafka's protocol.

A message may carry a sequence: 0 for the producer's first to a partition in its epoch, then one
more each time.  A repetition is then answered with the first one's offset and not written again.
Without one it is the caller's affair that nothing is sent twice.
"""

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.messages import OutgoingMessage
from goqueue.cluster import Topic
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.errors import PartitionNotFound, PolicyViolation
from goqueue.model.ids import TopicName
from goqueue.model.names import is_internal
from goqueue.model.partitioner import murmur2_partition
from goqueue.model.record import Record
from goqueue.txn import ProducerIdentity, State, Transaction
from goqueue.txn.errors import InvalidTransactionState

NO_SEQUENCE = -1


class PublishedInTransaction(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    duplicate: bool


class TransactionMessages:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turn = 0

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
        if is_internal(topic):
            raise PolicyViolation(f"{topic!r} is the broker's own topic")
        found = await self._broker.ensure_topic(topic)
        index = self._partition(found, message)
        partition = await self._broker.partition(topic, index)
        transactions = self._broker.transactions
        await transactions.ready(transactional_id)
        self.check_open(transactional_id, who, transaction_id)
        transactions.admit(transactional_id, who, (TopicName(topic), index), adds=True)
        appended = self._broker.append(partition, self._batch(who, message, sequence))
        await partition.committed(appended.last_offset)
        await transactions.durable(transactional_id)
        return PublishedInTransaction(index, appended.first_offset, appended.is_repeat)

    def check_open(
        self, transactional_id: str, who: ProducerIdentity, transaction_id: str | None
    ) -> Transaction:
        """The open transaction; refused when there is none, or when another one is meant."""
        transaction = self._broker.transactions.check(transactional_id, who)
        if transaction.state is not State.ONGOING:
            raise InvalidTransactionState(f"{transactional_id!r} has no transaction open")
        if transaction_id is not None and transaction_id != transaction_name(transaction):
            raise InvalidTransactionState(
                f"{transaction_id!r} is over; {transaction_name(transaction)!r} is open"
            )
        return transaction

    def _partition(self, topic: Topic, message: OutgoingMessage) -> int:
        if message.partition is not None:
            if not topic.has_partition(message.partition):
                raise PartitionNotFound(
                    f"topic {topic.name!r} has partitions 0 to {topic.partitions - 1},"
                    f" not {message.partition}"
                )
            return message.partition
        if message.key is not None:
            return murmur2_partition(message.key, topic.partitions)
        self._turn += 1
        return self._turn % topic.partitions

    def _batch(self, who: ProducerIdentity, message: OutgoingMessage, sequence: int) -> bytearray:
        now = self._broker.doors.clock.now()
        timestamp = now if message.timestamp is None else message.timestamp
        record = Record(0, timestamp, message.key, message.value, message.headers)
        producer = (who.producer_id, who.epoch, sequence)
        return batches.encode([record], attributes=TRANSACTIONAL, producer=producer)


def transaction_name(transaction: Transaction) -> str:
    """One transaction among all that its producer ever had."""
    return f"txn-{transaction.producer_id}-{transaction.epoch}-{transaction.started_at}"
