"""Transactions whose partitions are led by other nodes than the coordinator.

    leader ── may this producer append here? ──> coordinator      once a transaction
    coordinator ── the marker of its end ──> leader               until it is confirmed
    leader ── who will end what is open here? ──> coordinator     see `orphans.py`

A leader appends only when the coordinator has the partition in the transaction, durably: then the
end of the transaction comes to the partition, too.  A marker may overtake the coordinator's word:
then it is asked once more, or the batch would belong to a transaction that is over.

The word holds until that marker comes (`Admitted`).  What is open in the log is no such word: the
coordinator appends to its own partitions before their adding is durable, and may lose that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from goqueue.broker.cluster.peer import Peers
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.broker.transactions.participants import end_in_partition
from goqueue.cluster import NO_LEADER, Metadata
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    NotEnoughReplicas,
    NotLeader,
    TimedOut,
    TopicNotFound,
)
from goqueue.model.ids import NodeId, Timestamp, TopicName, TopicPartition
from goqueue.model.markers import UNDECIDED, Marker
from goqueue.runtime import Environment
from goqueue.txn import OpenTransaction, ProducerIdentity, QueueLedger
from goqueue.txn.errors import ConcurrentTransactions, ProducerFenced, TransactionError
from goqueue.wire.node_messages import (
    AdmitToTransaction,
    EndTransaction,
    FindOrphans,
    NodeApi,
    NodeRequest,
    Nothing,
    Orphan,
    ReplyT,
)

ASK_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 2.0  # sooner than whoever asks gives up
ADMIT_ATTEMPTS_MAX: Final = 3
ADMITTED_MAX: Final = 10_000  # producers of a partition; beyond that they are asked about again

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
        self._admitted = Admitted()

    @property
    def handlers(self) -> dict[NodeApi, NodeHandler]:
        """Of the cluster listener."""
        return {
            NodeApi.ADMIT_TO_TRANSACTION: self._admit,
            NodeApi.END_TRANSACTION: self._end,
            NodeApi.FIND_ORPHANS: self._find_orphans,
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
            if self._admitted.holds(partition, who.producer_id, who.epoch):
                return
            before = _last_end(partition, who.producer_id)
            await self._ask_to_admit(request)
            if _last_end(partition, who.producer_id) == before:
                self._admitted.note(partition, who)
                return
        raise ConcurrentTransactions(f"transactions of {transactional_id!r} end one after another")

    async def _ask_to_admit(self, request: AdmitToTransaction) -> None:
        try:
            await self._ask_coordinator(request.transactional_id, request)
        except TransactionError:
            raise
        except InvalidProducerEpoch as error:  # they have one word on the wire
            raise ProducerFenced(str(error)) from error
        except GoQueueError as error:  # what every producer tries again
            text = f"the transaction's coordinator did not say whether it is open: {error}"
            raise NotEnoughReplicas(text) from error

    async def find_orphans(
        self, partition: Partition, opened: Sequence[OpenTransaction]
    ) -> list[Orphan]:
        """Those that the coordinator does not know; raises when it cannot say.

        They are as they were when it was asked: they may be ended in the same step.
        """
        places = [(each.producer_id, each.epoch, each.ended_at) for each in opened]
        request = FindOrphans(partition.topic, int(partition.index), places)
        # By producer: a log does not say which transactional id wrote to it, and one node
        # coordinates all of them.
        found = await self._ask_coordinator("", request)
        return [
            each
            for each in found
            if _is_open(partition, each)
            and not self._admitted.holds(partition, each.producer_id, each.epoch)
        ]

    async def _ask_coordinator(self, transactional_id: str, request: NodeRequest[ReplyT]) -> ReplyT:
        coordinator = self._broker.transaction_coordinator(transactional_id)
        return await self._broker.peers.of(coordinator).ask(request, ASK_SECONDS)

    async def _end(self, _node_id: NodeId, request: EndTransaction) -> Nothing:
        try:
            partition = await self._broker.partition(request.topic, request.partition)
        except TopicNotFound as error:  # it is the coordinator who knows whether it is deleted
            raise NotLeader("this node does not know the topic yet") from error
        if request.is_ledger:
            at = QueueLedger(TopicName(request.topic), request.partition)
            ended = self._broker.transactions.acks.end(at, request.marker)
        else:
            ended = end_in_partition(partition, request.marker, self._broker.environment.clock)
        await _answer_in_time(ended)
        return Nothing()

    # --- the coordinator --------------------------------------------------------------------------

    async def _admit(self, _node_id: NodeId, request: AdmitToTransaction) -> Nothing:
        transactions, transactional_id = self._broker.transactions, request.transactional_id
        who = ProducerIdentity(request.producer_id, request.producer_epoch)
        at = TopicPartition(TopicName(request.topic), request.partition)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await transactions.wait_ready(transactional_id)
        except TimeoutError as error:
            text = f"the transaction before this one of {transactional_id!r} is still being ended"
            raise ConcurrentTransactions(text) from error
        try:
            added = transactions.admit(transactional_id, who, at, adds=request.adds)
        except TransactionError:
            await transactions.settled()
            raise
        if added is not None:
            await _answer_in_time(asyncio.shield(added))
        return Nothing()

    async def _find_orphans(self, _node_id: NodeId, request: FindOrphans) -> list[Orphan]:
        at = TopicPartition(TopicName(request.topic), request.partition)
        opened = [
            OpenTransaction(producer_id, epoch, Timestamp(ended_at))
            for producer_id, epoch, ended_at in request.opened
        ]
        return await self._broker.transactions.find_orphans(at, opened)

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

    async def end(
        self, leader: NodeId, at: TopicPartition, marker: Marker, *, is_ledger: bool = False
    ) -> None:
        """Return when the partition, which that node leads, has the marker, durably."""
        request = EndTransaction(at.topic, at.partition, marker, is_ledger)
        await self._broker.peers.of(leader).ask(request, ASK_SECONDS)


class Admitted:
    """Which producers the coordinator let append to which partitions, until the marker comes."""

    def __init__(self) -> None:
        # By producer: its epoch then, and when its transaction before that was decided.
        self._by_partition: WeakKeyDictionary[Partition, dict[int, tuple[int, Timestamp]]] = (
            WeakKeyDictionary()
        )

    def note(self, partition: Partition, who: ProducerIdentity) -> None:
        admitted = self._by_partition.setdefault(partition, {})
        if len(admitted) >= ADMITTED_MAX:
            admitted.clear()
        admitted[who.producer_id] = who.epoch, _find_end(partition, who.producer_id)

    def holds(self, partition: Partition, producer_id: int, epoch: int) -> bool:
        """Whether no marker has come since; one with an epoch of its own raises that in the log."""
        admitted = self._by_partition.get(partition, {}).get(producer_id)
        if admitted != (epoch, _find_end(partition, producer_id)):
            return False
        producer = partition.log.producers.find(producer_id)
        return producer is None or producer.epoch <= epoch


def _last_end(partition: Partition, producer_id: int) -> tuple[int, Timestamp] | None:
    """What every marker of the producer changes."""
    producer = partition.log.producers.find(producer_id)
    return None if producer is None else (producer.epoch, producer.ended_at)


def _find_end(partition: Partition, producer_id: int) -> Timestamp:
    producer = partition.log.producers.find(producer_id)
    return UNDECIDED if producer is None else producer.ended_at


def _is_open(partition: Partition, orphan: Orphan) -> bool:
    producer = partition.log.producers.find(orphan.producer_id)
    return (
        producer is not None
        and producer.transaction_start is not None
        and (producer.epoch, producer.ended_at) == (orphan.epoch, orphan.ended_at)
    )


async def _answer_in_time(done: asyncio.Future[None]) -> None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await done
    except TimeoutError as error:
        raise TimedOut("not committed in time; it may still be") from error
