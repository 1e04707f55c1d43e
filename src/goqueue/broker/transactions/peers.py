"""Transactions whose partitions are led, or whose groups are coordinated, by other nodes than the
coordinator.

    leader ── may this producer append here? ──> coordinator             once a transaction
    coordinator ── the marker of its end ──> leader                      until it is confirmed
    leader ── who will end what is open here? ──> all coordinators       see `orphans.py`

A group's coordinator is to its offsets what a leader is to its partition: see `offsets.py`.

A leader appends only when the coordinator has the partition in the transaction, durably: then the
end of the transaction comes to the partition, too.  A marker may overtake the coordinator's word:
then it is asked once more, or the batch would belong to a transaction that is over.

The word holds until that marker comes (`Admitted`).  What is open in the log is no such word: the
coordinator appends to its own partitions before their adding is durable, and may lose that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.cluster.peer import Peers
from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.coordinator import Transactions
from goqueue.broker.transactions.orphans import agree
from goqueue.broker.transactions.participants import end_in_partition
from goqueue.cluster import NO_LEADER, Metadata
from goqueue.groups import CommitRequest, PartitionResult
from goqueue.groups.errors import GroupError
from goqueue.model.errors import (
    GoQueueError,
    InvalidProducerEpoch,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeader,
    TimedOut,
    TopicNotFound,
)
from goqueue.model.ids import GroupId, NodeId, Timestamp, TopicName, TopicPartition
from goqueue.model.markers import UNDECIDED, Marker
from goqueue.runtime import Environment
from goqueue.txn import GroupOffsets, OpenTransaction, ProducerIdentity, QueueLedger
from goqueue.txn.errors import ConcurrentTransactions, ProducerFenced, TransactionError
from goqueue.wire.node_messages import (
    AdmitToTransaction,
    EndTransaction,
    FindOrphans,
    NodeApi,
    NodeRequest,
    Nothing,
    Orphan,
    Refusal,
    ReplyT,
    error_of,
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

    @property
    def others(self) -> OtherNodes | None:
        """The same, for verbs; None on a broker that is alone."""

    groups: Groups

    def group_coordinator(self, group_id: str) -> NodeId: ...

    def transaction_coordinator(self, transactional_id: str) -> NodeId: ...

    def transaction_coordinators(self) -> Mapping[NodeId, Sequence[int]]:
        """The nodes that lead shards; raises `NotCoordinator` while one has no leader."""


AddedOffset = tuple[str, int, Refusal | None]


class AddOffsets(Verb[list[AddedOffset]], frozen=True):
    """The group's coordinator is to hold offsets back for a transaction."""

    name = "add_offsets"
    reply_type = list[AddedOffset]

    transactional_id: str
    producer_id: int
    producer_epoch: int
    request: CommitRequest
    adds_group: bool


class AbortOwner(Verb[bool], frozen=True):
    """On an operator's word: abort the transaction that has this open, if it is there."""

    name = "abort_transaction_owner"
    reply_type = bool

    found: OpenTransaction


class FindTransactionalId(Verb[bool], frozen=True):
    """Whether the node coordinates the producer."""

    name = "find_transactional_id"
    reply_type = bool

    producer_id: int


class TransactionPeers:
    def __init__(self, broker: TransactionBroker) -> None:
        self._broker = broker
        self._admitted = Admitted()
        if broker.others is not None:
            broker.others.serve(AddOffsets, self._add_offsets)
            broker.others.serve(AbortOwner, self._abort_owner)
            broker.others.serve(FindTransactionalId, self._find_id)

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
        """Those that no coordinator knows; raises when one cannot say.

        They are as they were when it was asked: they may be ended in the same step.
        """
        at = TopicPartition(TopicName(partition.topic), int(partition.index))
        found = await self._ask_all(at, opened)
        return [
            each
            for each in found
            if _is_open(partition, each)
            and not self._admitted.holds(partition, each.producer_id, each.epoch)
        ]

    async def _ask_all(
        self, where: TopicPartition | GroupOffsets, opened: Sequence[OpenTransaction]
    ) -> list[Orphan]:
        """What no shard will end; this node's own say so in the step in which this returns."""
        nodes, me = self._broker.transaction_coordinators(), self._broker.node_id
        mine = nodes.get(me, ())
        places = [(each.producer_id, each.epoch, each.ended_at) for each in opened]
        group = where.group_id if isinstance(where, GroupOffsets) else ""
        topic, index = ("", -1) if isinstance(where, GroupOffsets) else where
        answers = await asyncio.gather(
            *(
                self._broker.peers.of(node).ask(
                    FindOrphans(topic, index, places, shards, group), ASK_SECONDS
                )
                for node, shards in nodes.items()
                if node != me
            )
        )
        if mine:
            answers.append(await self._broker.transactions.find_orphans(where, opened, mine))
        if set(self._broker.transactions.shards) != set(mine):
            raise NotCoordinator("shards of transactions have moved: their answers may be old")
        return agree(answers)

    async def find_orphaned_offsets(
        self, group_id: GroupId, opened: Sequence[OpenTransaction]
    ) -> list[Orphan]:
        """As `find_orphans`, of offsets that wait in a group."""
        return await self._ask_all(GroupOffsets(group_id), opened)

    async def _ask_coordinator(self, transactional_id: str, request: NodeRequest[ReplyT]) -> ReplyT:
        coordinator = self._broker.transaction_coordinator(transactional_id)
        return await self._broker.peers.of(coordinator).ask(request, ASK_SECONDS)

    async def _end(self, _node_id: NodeId, request: EndTransaction) -> Nothing:
        if request.group:
            group_id = GroupId(request.group)
            await _answer_in_time(self._broker.groups.end_transaction(group_id, request.marker))
            return Nothing()
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
        transactions.host_of(transactional_id)  # or raises `NotCoordinator`
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if request.group:
                    await self._admit_group(request, who)
                    return Nothing()
                await transactions.wait_ready(transactional_id)
        except TimeoutError as error:
            text = f"the transaction before this one of {transactional_id!r} is still being ended"
            raise ConcurrentTransactions(text) from error
        try:
            added = transactions.admit(transactional_id, who, at, adds=request.adds)
        except TransactionError:
            await transactions.wait_settled(transactional_id)
            raise
        if added is not None:
            await _answer_in_time(asyncio.shield(added))
        return Nothing()

    async def _admit_group(self, request: AdmitToTransaction, who: ProducerIdentity) -> None:
        transactions, transactional_id = self._broker.transactions, request.transactional_id
        try:
            await transactions.announce_group(
                transactional_id, who, request.group, adds=request.adds
            )
        except TransactionError:
            await transactions.wait_settled(transactional_id)
            raise
        await transactions.wait_durable(transactional_id)

    async def _find_orphans(self, _node_id: NodeId, request: FindOrphans) -> list[Orphan]:
        where: TopicPartition | GroupOffsets = GroupOffsets(request.group)
        if not request.group:
            where = TopicPartition(TopicName(request.topic), request.partition)
        opened = [
            OpenTransaction(producer_id, epoch, Timestamp(ended_at))
            for producer_id, epoch, ended_at in request.opened
        ]
        return await self._broker.transactions.find_orphans(where, opened, request.shards)

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

    # --- groups of other nodes --------------------------------------------------------------------

    def group_elsewhere(self, group_id: GroupId) -> NodeId | None:
        """The other node that coordinates the group; None when this one does.

        Raises `NotCoordinator` when nobody does.
        """
        if self._broker.others is None:
            return None
        coordinator = self._broker.group_coordinator(group_id)
        return None if coordinator == self._broker.node_id else coordinator

    async def end_in_group(self, coordinator: NodeId, group_id: GroupId, marker: Marker) -> None:
        """Return when the group, which that node coordinates, has the marker, durably."""
        request = EndTransaction("", -1, marker, group=group_id)
        await self._broker.peers.of(coordinator).ask(request, ASK_SECONDS)

    async def admit_group(
        self, transactional_id: str, who: ProducerIdentity, group_id: GroupId, *, adds: bool
    ) -> None:
        """Return when the transaction has the group, durably; raises as its coordinator does."""
        request = AdmitToTransaction(
            transactional_id, who.producer_id, who.epoch, "", -1, adds, group_id
        )
        try:
            await self._ask_coordinator(transactional_id, request)
        except TransactionError:
            raise
        except InvalidProducerEpoch as error:  # they have one word on the wire
            raise ProducerFenced(str(error)) from error
        except GoQueueError as error:  # what every client tries again
            text = f"the transaction's coordinator did not say whether it is open: {error}"
            raise NotCoordinator(text) from error

    async def add_offsets(
        self,
        node_id: NodeId,
        transactional_id: str,
        who: ProducerIdentity,
        request: CommitRequest,
        *,
        adds_group: bool,
    ) -> tuple[PartitionResult, ...]:
        """As `Transactions.add_offsets`, at the node that coordinates the group."""
        assert self._broker.others is not None
        verb = AddOffsets(transactional_id, who.producer_id, who.epoch, request, adds_group)
        try:
            answer = await self._broker.others.ask(node_id, verb)
        except InvalidProducerEpoch as error:
            raise ProducerFenced(str(error)) from error
        return tuple(
            PartitionResult(TopicName(topic), partition, _group_error(refusal))
            for topic, partition, refusal in answer
        )

    async def _add_offsets(self, _node_id: NodeId, verb: AddOffsets) -> list[AddedOffset]:
        self._broker.groups.host_of(verb.request.group_id)  # or raises: it goes no further
        results = await self._broker.transactions.add_offsets(
            verb.transactional_id,
            ProducerIdentity(verb.producer_id, verb.producer_epoch),
            verb.request,
            adds_group=verb.adds_group,
        )
        return [
            (
                each.topic,
                each.partition,
                None if each.error is None else Refusal(each.error.code, str(each.error)),
            )
            for each in results
        ]

    # --- producers of other nodes -----------------------------------------------------------------

    async def abort_owner(self, found: OpenTransaction) -> bool:
        """As `Transactions.abort_owner`, wherever the transaction is coordinated."""
        if await self._broker.transactions.abort_owner(found):
            return True
        verb = AbortOwner(found)
        for node in self._others():
            assert self._broker.others is not None
            if await self._broker.others.ask(node, verb):
                return True
        return False

    async def _abort_owner(self, _node_id: NodeId, verb: AbortOwner) -> bool:
        return await self._broker.transactions.abort_owner(verb.found)

    async def find_coordinator_of(self, producer_id: int) -> NodeId:
        """The node that coordinates the producer; this one, when nobody knows it."""
        if self._broker.transactions.has_producer(producer_id):
            return self._broker.node_id
        verb = FindTransactionalId(producer_id)
        for node in self._others():
            assert self._broker.others is not None
            if await self._broker.others.ask(node, verb):
                return node
        return self._broker.node_id

    async def _find_id(self, _node_id: NodeId, verb: FindTransactionalId) -> bool:
        return self._broker.transactions.has_producer(verb.producer_id)

    def _others(self) -> list[NodeId]:
        nodes = self._broker.transaction_coordinators()
        return [node for node in nodes if node != self._broker.node_id]


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


def _group_error(refusal: Refusal | None) -> GroupError | None:
    if refusal is None:
        return None
    error = error_of(refusal)
    return error if isinstance(error, GroupError) else GroupError(str(error))


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
