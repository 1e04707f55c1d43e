"""The partition of dead letters that a ledger writes to, wherever it is led.

A ledger is an idempotent producer, so a batch that is sent again after an answer was lost is not
written again: whoever leads the target knows what the last one was.
"""

from typing import Protocol

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.storage.partition import Partition
from goqueue.cluster import Topic
from goqueue.model import batch as batches
from goqueue.model.ids import NodeId, Offset, Timestamp
from goqueue.queue import DeadLettersPlanned
from goqueue.runtime import Clock


class Target(Protocol):
    @property
    def topic(self) -> str: ...

    async def find_end(self, plan: DeadLettersPlanned) -> Offset | None:
        """Where the target ends, durably, if the planned batch is there."""
        ...

    async def append(self, data: bytearray) -> Offset:
        """The last offset of the batch, which is durable."""
        ...


class TargetHere:
    def __init__(self, partition: Partition, clock: Clock) -> None:
        self.partition = partition
        self.topic = partition.topic
        self._clock = clock

    async def find_end(self, plan: DeadLettersPlanned) -> Offset | None:
        return await self.find_end_of(plan.producer_id, plan.producer_epoch, plan.sequence)

    async def find_end_of(self, producer_id: int, epoch: int, sequence: int) -> Offset | None:
        partition = self.partition
        partition.check_leader()
        producer = partition.log.producers.find(producer_id)
        if producer is None or producer.epoch != epoch or not producer.batches:
            return None
        if producer.batches[-1].last_sequence < sequence:
            return None
        end = partition.log.end_offset
        await partition.wait_committed(Offset(end - 1))
        return end

    async def append(self, data: bytearray) -> Offset:
        partition = self.partition
        partition.check_enough_replicas()
        now: Timestamp = self._clock.now()
        last = partition.append(data, batches.verified_headers(data), now).last_offset
        await partition.wait_committed(last)
        return last


class FindDeadLetters(Verb[Offset | None], frozen=True):
    name = "find_dead_letters"
    reply_type = Offset | None

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    sequence: int


class AppendDeadLetters(Verb[Offset], frozen=True):
    name = "append_dead_letters"
    reply_type = Offset

    topic: str
    partition: int
    data: bytes


class TargetElsewhere:
    def __init__(self, others: OtherNodes, leader: NodeId, topic: Topic, index: int) -> None:
        self.topic: str = topic.name
        self._others = others
        self._leader = leader
        self._index = index

    async def find_end(self, plan: DeadLettersPlanned) -> Offset | None:
        verb = FindDeadLetters(
            self.topic, self._index, plan.producer_id, plan.producer_epoch, plan.sequence
        )
        return await self._others.ask(self._leader, verb)

    async def append(self, data: bytearray) -> Offset:
        verb = AppendDeadLetters(self.topic, self._index, bytes(data))
        return await self._others.ask(self._leader, verb)


class Services(Protocol):
    async def partition(self, topic: str, index: int) -> Partition: ...


class DeadLettersHere:
    """What this node does for ledgers of others."""

    def __init__(self, services: Services, clock: Clock) -> None:
        self._services = services
        self._clock = clock

    def serve(self, others: OtherNodes) -> None:
        others.serve(FindDeadLetters, self.find)
        others.serve(AppendDeadLetters, self.append)

    async def find(self, _: NodeId, verb: FindDeadLetters) -> Offset | None:
        target = await self._target(verb.topic, verb.partition)
        return await target.find_end_of(verb.producer_id, verb.producer_epoch, verb.sequence)

    async def append(self, _: NodeId, verb: AppendDeadLetters) -> Offset:
        target = await self._target(verb.topic, verb.partition)
        return await target.append(bytearray(verb.data))

    async def _target(self, topic: str, index: int) -> TargetHere:
        return TargetHere(await self._services.partition(topic, index), self._clock)
