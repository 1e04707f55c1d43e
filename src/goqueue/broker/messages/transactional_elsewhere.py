"""Batches of a transaction that this node coordinates, for partitions that other nodes lead.

    coordinator   the partition is in the transaction, durably ── batches, `as_of` ──> leader
    leader        has the end of a transaction come that was decided after `as_of`?
                  no: it appends in the same step; yes: the transaction is over

The end of the open transaction is decided after `as_of`, and those of the producer's transactions
before it are not.  So a request that is late is never taken for one of the next transaction, which
may have the same epoch.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.cluster.other_nodes import Verb
from goqueue.broker.delays.appending import Admit
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import NO_LEADER, Topic
from goqueue.delay import may_hold_delays
from goqueue.log import Appended
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, Timestamp
from goqueue.model.partial_batch import LeftOut
from goqueue.txn import ProducerIdentity
from goqueue.txn.errors import InvalidTransactionState

MARGIN_SECONDS: Final = 5.0  # beside the time that the messages have to be durable


class AppendedThere(msgspec.Struct, frozen=True, array_like=True):
    first_offset: int
    is_repeat: bool
    left_out: frozenset[int] = frozenset()  # places of records that are dead letters instead


class AppendInTransaction(Verb[list[AppendedThere]], frozen=True):
    """Append the batches to a partition; gives what became of each when they are durable."""

    name = "append_in_transaction"
    reply_type = list[AppendedThere]

    topic_id: UUID
    partition: int
    producer_id: int
    producer_epoch: int
    as_of: Timestamp  # the end of the transaction is decided after this
    batches: list[bytes]
    transactional_id: str = ""


class TransactionAppends:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        if broker.others is not None:
            broker.others.serve(AppendInTransaction, self._append_here)

    def leader_elsewhere(self, topic: Topic, index: int) -> NodeId | None:
        """The other node that leads the partition; None: this one, or nobody does."""
        others = self._broker.others
        if others is None:
            return None
        leader = self._broker.metadata.partition(topic.topic_id, index).leader
        return None if leader in (others.node_id, NO_LEADER) else leader

    async def append(
        self,
        leader: NodeId,
        topic: Topic,
        index: int,
        who: ProducerIdentity,
        as_of: Timestamp,
        batches: Sequence[bytearray],
        transactional_id: str,
    ) -> list[AppendedThere]:
        """Raises what the leader refuses with; `Uncertain` when it did not answer."""
        others = self._broker.others
        assert others is not None, "there are other nodes"
        request = AppendInTransaction(
            topic.topic_id,
            index,
            who.producer_id,
            who.epoch,
            as_of,
            list(map(bytes, batches)),
            transactional_id,
        )
        return await others.ask(leader, request, self._timeout_seconds + MARGIN_SECONDS)

    async def append_all(
        self,
        topic: Topic,
        who: ProducerIdentity,
        as_of: Timestamp,
        batches: Mapping[int, Sequence[bytearray]],
        transactional_id: str,
    ) -> dict[int, list[AppendedThere]]:
        """The same for several partitions at once; raises the first refusal when all are done."""
        found = await asyncio.gather(
            *(
                self._append_at_leader(topic, index, who, as_of, some, transactional_id)
                for index, some in batches.items()
            ),
            return_exceptions=True,
        )
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return {
            index: each
            for index, each in zip(batches, found, strict=True)
            if not isinstance(each, BaseException)
        }

    async def _append_at_leader(
        self,
        topic: Topic,
        index: int,
        who: ProducerIdentity,
        as_of: Timestamp,
        batches: Sequence[bytearray],
        transactional_id: str,
    ) -> list[AppendedThere]:
        assert self._broker.others is not None, "there are other nodes"
        leader = self._broker.others.leader(topic, index)
        try:
            return await self.append(leader, topic, index, who, as_of, batches, transactional_id)
        except GoQueueError as error:
            advice = "other partitions may have their messages: abort the transaction"
            raise type(error)(f"{topic.name}-{index}: {error}; {advice}") from error

    @property
    def _timeout_seconds(self) -> float:
        return self._broker.config.http.publish_timeout_ms / 1000

    # --- the leader -------------------------------------------------------------------------------

    async def append_here(
        self,
        partition: Partition,
        batches: Sequence[bytearray],
        left_out: Sequence[LeftOut | None],
        admit: Admit,
    ) -> list[Appended]:
        """In the step of the caller, who is admitted; with delayed messages it takes longer."""
        both = list(zip(batches, left_out, strict=True))
        if not any(map(may_hold_delays, batches)):
            append = self._broker.append
            return [append(partition, each, is_checked=True, left_out=out) for each, out in both]
        appended = []
        for batch, out in both:
            parts = await self._broker.delays.appends.append(
                partition, batch, timeout_seconds=self._timeout_seconds, admit=admit, left_out=out
            )
            if parts is None:
                await admit()
                each = self._broker.append(partition, batch, is_checked=True, left_out=out)
                appended.append(each)
            else:
                appended.append(parts.data)
        return appended

    async def _append_here(self, _: NodeId, request: AppendInTransaction) -> list[AppendedThere]:
        topic = self._broker.topic_by_id(request.topic_id)
        partition = await self._broker.partition(topic.name, request.partition)
        batches = [bytearray(each) for each in request.batches]
        left_out = [
            await self._broker.check_schemas(
                partition, batch, transactional_id=request.transactional_id
            )
            for batch in batches
        ]

        async def admit() -> None:
            _check_not_over(partition, request)

        await admit()
        appended = await self.append_here(partition, batches, left_out, admit)
        last = max(each.last_offset for each in appended)
        await partition.wait_committed(last, self._timeout_seconds)
        return list(map(describe_append, appended, left_out))


def describe_append(appended: Appended, left_out: LeftOut | None) -> AppendedThere:
    """Of one batch."""
    out = frozenset(left_out[0]) if left_out else frozenset[int]()
    return AppendedThere(appended.first_offset, appended.is_repeat, out)


def _check_not_over(partition: Partition, request: AppendInTransaction) -> None:
    producer = partition.log.producers.find(request.producer_id)
    if producer is None or producer.epoch != request.producer_epoch:
        return  # the log refuses an older epoch
    if producer.ended_at > request.as_of:
        raise InvalidTransactionState(
            f"the transaction of producer {request.producer_id} is over in {partition}"
        )
