"""Transactions whose partitions are led by other nodes than the coordinator.

    leader of a partition ── a batch: may it be appended? ──> coordinator    once a transaction
    coordinator ── the transaction's marker ──> leaders of its partitions    until it is confirmed
    leader of a partition ── who is to end what is open here? ──> coordinator    see `orphans.py`

The leader appends only once the coordinator has the partition in the transaction, durably: then the
transaction's end comes to the partition, too.  Between the coordinator's word and the append, the
end may come and go: then the coordinator is asked again, or the batch would be open for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from goqueue.broker.cluster.peer import Peers
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.broker.transactions.participants import end_in_partition
from goqueue.cluster import NO_LEADER, Metadata
from goqueue.model.errors import GoQueueError, NotLeader, TimedOut
from goqueue.model.ids import NodeId, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import Environment
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import ConcurrentTransactions
from goqueue.wire.node_messages import AdmitToTransaction, EndTransaction, NodeApi, Nothing

ASK_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 5.0  # sooner than whoever asks gives up, and the connection with it
ADMIT_ATTEMPTS_MAX: Final = 3

NodeHandler = Callable[[NodeId, Any], Awaitable[object]]


class TransactionBroker(Protocol):
    environment: Environment
    transactions: Transactions

    @property
    def node_id(self) -> NodeId: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def peers(self) -> Peers:
        """The other nodes."""

    async def partition(self, topic: str, index: int) -> Partition: ...

    def transaction_coordinator(self, transactional_id: str) -> NodeId: ...


class TransactionPeers:
    def __init__(self, broker: TransactionBroker) -> None:
        self._broker = broker

    @property
    def handlers(self) -> dict[NodeApi, NodeHandler]:
        """Of the cluster listener."""
        return {
            NodeApi.ADMIT_TO_TRANSACTION: self._admit,
            NodeApi.END_TRANSACTION: self._end,
        }

    # --- the leader of a partition ----------------------------------------------------------------

    async def admit(
        self, transactional_id: str, who: ProducerIdentity, partition: Partition, *, adds: bool
    ) -> None:
        """Return when the producer may append, in the same step; raises as the coordinator does."""
        request = AdmitToTransaction(
            transactional_id,
            who.producer_id,
            who.epoch,
            partition.topic,
            int(partition.index),
            adds,
        )
        for _ in range(ADMIT_ATTEMPTS_MAX):
            before = _last_end(partition, who)
            if _has_open(partition, who):
                return
            coordinator = self._broker.transaction_coordinator(transactional_id)
            await self._broker.peers.of(coordinator).ask(request, ASK_SECONDS)
            if _last_end(partition, who) == before:
                return
        raise ConcurrentTransactions(f"transactions of {transactional_id!r} end one after another")

    async def _end(self, _node_id: NodeId, request: EndTransaction) -> Nothing:
        partition = await self._broker.partition(request.topic, request.partition)
        ended = end_in_partition(partition, request.marker, self._broker.environment.clock)
        await _answer_in_time(ended)
        return Nothing()

    # --- the coordinator --------------------------------------------------------------------------

    async def _admit(self, _node_id: NodeId, request: AdmitToTransaction) -> Nothing:
        transactions, transactional_id = self._broker.transactions, request.transactional_id
        who = ProducerIdentity(request.producer_id, request.producer_epoch)
        at = TopicPartition(TopicName(request.topic), request.partition)
        await transactions.wait_ready(transactional_id)
        try:
            added = transactions.admit(transactional_id, who, at, adds=request.adds)
        except GoQueueError:
            await transactions.settled()
            raise
        if added is not None:
            await _answer_in_time(asyncio.shield(added))
        return Nothing()

    def leader_elsewhere(self, at: TopicPartition) -> NodeId | None:
        """The other node that leads the partition; None when this one does, or it is deleted.

        Raises `NotLeader` when nobody leads it.
        """
        metadata = self._broker.metadata
        topic = metadata.find(at.topic)
        state = None if topic is None else metadata.partitions.find(topic.topic_id, at.partition)
        if state is None or state.leader == self._broker.node_id:
            return None
        if state.leader == NO_LEADER:
            raise NotLeader(f"{at.topic}-{at.partition} has no leader")
        return state.leader

    async def end(self, leader: NodeId, at: TopicPartition, marker: Marker) -> None:
        """Return when the partition, which that node leads, has the marker, durably."""
        request = EndTransaction(at.topic, at.partition, marker)
        await self._broker.peers.of(leader).ask(request, ASK_SECONDS)


def _has_open(partition: Partition, who: ProducerIdentity) -> bool:
    producer = partition.log.producers.find(who.producer_id)
    return (
        producer is not None
        and producer.epoch == who.epoch
        and producer.transaction_start is not None
    )


def _last_end(partition: Partition, who: ProducerIdentity) -> tuple[int, int] | None:
    """What every marker of the producer changes."""
    producer = partition.log.producers.find(who.producer_id)
    return None if producer is None else (producer.epoch, producer.ended_at)


async def _answer_in_time(done: asyncio.Future[None]) -> None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await done
    except TimeoutError as error:
        raise TimedOut("not committed in time; it may still be") from error
