"""Looking at delayed messages, cancelling and rescheduling them, from any node.

Each leader knows the messages of its partitions.  Who asks for all gets what there is, and which
partitions are `missing`.  What is about one message is asked of its leader by the listener.
"""

import heapq
from typing import Protocol
from uuid import UUID

import msgspec

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.delays.line import DelayLine
from goqueue.broker.delays.lines import DelayLines
from goqueue.broker.delays.statistics import DelayCounts
from goqueue.broker.traces.moved_events import note_cancelled
from goqueue.cluster import Topic
from goqueue.delay import DUE_MAX, DelayMachine, Entry, MessageState, publish_time
from goqueue.delay.errors import DelayedMessageNotFound
from goqueue.delay.headers import OURS
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.ids import NodeId, Offset, Timestamp, TopicPartition
from goqueue.model.record import Headers

Missing = dict[TopicPartition, GoQueueError]
Place = tuple[int, int, int]  # due, partition, offset: where a page ends

FIRST: Place = (-1, -1, -1)


class DelayedMessage(msgspec.Struct, frozen=True):
    partition: int
    offset: int
    deliver_at: int
    state: MessageState
    published_at: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


class ListDelayed(Verb[list[DelayedMessage]], frozen=True):
    """The first that wait behind a place, in the partitions that this node leads."""

    name = "list_delays"
    reply_type = list[DelayedMessage]

    topic_id: UUID
    partitions: list[int]
    after: Place
    limit: int


class CountDelayed(Verb[dict[str, DelayCounts]], frozen=True):
    """By topic."""

    name = "count_delays"
    reply_type = dict[str, DelayCounts]


class KnowsTopics(Protocol):
    @property
    def others(self) -> OtherNodes | None: ...

    def topic(self, name: str) -> Topic: ...

    def topic_by_id(self, topic_id: UUID) -> Topic: ...

    def topics(self) -> list[Topic]: ...


class DelayAdmin:
    def __init__(self, broker: KnowsTopics, lines: DelayLines) -> None:
        self._broker = broker
        self._lines = lines

    def serve(self, others: OtherNodes) -> None:
        others.serve(ListDelayed, self._list_here)
        others.serve(CountDelayed, self._count_here)

    # --- asking -----------------------------------------------------------------------------------

    async def page(
        self, topic: str, *, after: Place, limit: int, missing: Missing
    ) -> list[DelayedMessage]:
        """Those that wait, by due time; partitions whose leader is not reached are `missing`."""
        found, by_node = self._broker.topic(topic), dict[NodeId, list[int]]()
        others = self._broker.others
        every = range(found.partitions)
        if others is None:
            verb = ListDelayed(found.topic_id, list(every), after, limit)
            return await self._list_here(NodeId(0), verb)
        for index in every:
            try:
                by_node.setdefault(others.leader(found, index), []).append(index)
            except GoQueueError as error:
                missing[TopicPartition(found.name, index)] = error
        verbs = {
            node: ListDelayed(found.topic_id, indexes, after, limit)
            for node, indexes in by_node.items()
        }
        messages = list[DelayedMessage]()
        for node, answer in (await others.ask_each(verbs)).items():
            if isinstance(answer, GoQueueError):
                for index in by_node[node]:
                    missing[TopicPartition(found.name, index)] = answer
            else:
                messages += answer
        return heapq.nsmallest(limit, messages, key=place_of)

    async def counts(self) -> tuple[dict[str, DelayCounts], list[NodeId]]:
        """Of all topics with delays, and the nodes that did not answer."""
        others = self._broker.others
        if others is None:
            return await self._count_here(NodeId(0), CountDelayed()), []
        verbs = {node: CountDelayed() for node in (others.node_id, *others.live)}
        total, missing = dict[str, DelayCounts](), list[NodeId]()
        for node, answer in (await others.ask_each(verbs)).items():
            if isinstance(answer, GoQueueError):
                missing.append(node)
                continue
            for topic, counts in answer.items():
                total[topic] = total.get(topic, DelayCounts()).plus(counts)
        return total, missing

    # --- the leader -------------------------------------------------------------------------------

    async def _list_here(self, _: NodeId, verb: ListDelayed) -> list[DelayedMessage]:
        topic, due, entries = self._broker.topic_by_id(verb.topic_id), verb.after[0], []
        for index in verb.partitions:
            line = self._lines.find(topic.name, index)
            if line is None:
                self._lines.check_led(topic, index)
                continue
            # With the same due time, partitions follow each other.
            after: Entry = (due, verb.after[2])
            if index != verb.after[1]:
                after = (due, -1) if index > verb.after[1] else (due, 2**63)
            entries += [(due, index, offset) for due, offset in await line.page(after, verb.limit)]
        return [
            DelayedMessage(index, offset, due, "pending")
            for due, index, offset in heapq.nsmallest(verb.limit, entries)
        ]

    async def find(self, topic: str, partition: int, offset: int) -> DelayedMessage:
        """For the partition's leader, as the next ones.  Raises `DelayedMessageNotFound`."""
        _, _, found = await self._look_up(topic, partition, offset)
        return found

    async def cancel(self, topic: str, partition: int, offset: int) -> DelayedMessage:
        """It is never delivered; raises `DelayedMessageFinished` when it was already."""
        line, first, found = await self._look_up(topic, partition, offset)
        await line.timers.submit(lambda machine: machine.cancel(Offset(offset), first))
        note_cancelled(line.data.tracer, offset)
        return msgspec.structs.replace(found, state="cancelled")

    async def reschedule(
        self, topic: str, partition: int, offset: int, due: Timestamp
    ) -> DelayedMessage:
        """It is due then; a time that is over means at once."""
        if due > DUE_MAX:
            raise InvalidRequest("deliver_at: it is behind the year 9999")
        line, first, found = await self._look_up(topic, partition, offset)
        await line.timers.submit(lambda machine: machine.reschedule(Offset(offset), first, due))
        line.wake()
        return msgspec.structs.replace(found, deliver_at=due)

    async def _look_up(
        self, name: str, partition: int, offset: int
    ) -> tuple[DelayLine, int, DelayedMessage]:
        """The message, and when it was to be delivered at first."""
        topic = self._broker.topic(name)
        topic.check_partition(partition)
        line = self._lines.find(topic.name, partition)
        if line is None:
            self._lines.check_led(topic, partition)
            raise DelayedMessageNotFound(f"no message of {topic.name}-{partition} is delayed")
        record = await line.find(offset)

        def look(machine: DelayMachine) -> tuple[int, MessageState]:
            due = machine.due_of(offset, record.timestamp)
            return due, machine.state_of(offset, due)

        due, state = await line.timers.read(look)
        headers = tuple(each for each in record.headers if each[0] not in OURS)
        found = DelayedMessage(
            partition,
            offset,
            due,
            state,
            publish_time(record.headers),
            record.key,
            record.value,
            headers,
        )
        return line, record.timestamp, found

    async def _count_here(self, _: NodeId, __: CountDelayed) -> dict[str, DelayCounts]:
        return self.counts_here()

    def counts_here(self) -> dict[str, DelayCounts]:
        """Of the partitions that this node leads, as they are; also for metrics."""
        total = dict[str, DelayCounts]()
        for line in self._lines:
            machine = line.timers.ahead
            counts = DelayCounts(
                machine.pending,
                machine.scheduled_total,
                machine.delivered_total,
                machine.cancelled_total,
                machine.expired_total,
            )
            name = line.data.topic
            total[name] = total.get(name, DelayCounts()).plus(counts)
        return total


def place_of(message: DelayedMessage) -> Place:
    return message.deliver_at, message.partition, message.offset
