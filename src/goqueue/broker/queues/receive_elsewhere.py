"""Receiving from partitions that other nodes lead.

    all leaders in turn, another one first each time ── nothing ──> wait here and at two others
                                                                        │ the first has some
                                                                        v
                                                              the rest is told to end it

A node that is asked answers for the partitions that it leads, and never asks further.  When the
caller goes away, or another node was faster, what a node delivered all the same is given back at
once.  A node that cannot be reached is left out.
"""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from goqueue.broker.cluster.other_nodes import OtherNodes, Verb
from goqueue.broker.queues.receive import Receiver
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.services import BrokerServices
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.ids import GroupId, NodeId, Timestamp, TopicPartition
from goqueue.model.record import Record
from goqueue.queue import DeliveryBatch, Peeked, Span, TooManyInFlight, Where, singles
from goqueue.runtime.tasks import owned_tasks

AT_ONCE: Final = 2  # other nodes that a consumer waits at
SLICE_MS: Final = 1_000  # of a wait, when there are more of them
PAUSE_SECONDS: Final = 0.2  # before nodes that refused are asked again
ANSWER_SECONDS: Final = 10.0  # beside the wait
BEGUN_MAX: Final = 10_000  # groups and topics that are known to have begun at their leaders

Found = list[DeliveryBatch] | GoQueueError


class DeliveryThere(msgspec.Struct, frozen=True):
    where: Where
    lease_id: int
    deadline: Timestamp
    messages: list[tuple[Record, int, int, int, int]]  # attempt, lane, failures, time-outs


class ReceiveHere(Verb[list[DeliveryThere]], frozen=True):
    name = "receive"
    reply_type = list[DeliveryThere]

    number: int  # by which the sender names it
    topics: list[str]
    group_id: GroupId
    consumer: str
    max_messages: int
    max_bytes: int
    visibility_ms: int | None
    wait_ms: int


class EndReceive(Verb[bool], frozen=True):
    """Nothing is wanted any more; gives whether it was under way."""

    name = "end_receive"
    reply_type = bool

    number: int


class GiveBack(Verb[bool], frozen=True):
    """These deliveries never arrived."""

    name = "give_back"
    reply_type = bool

    deliveries: list[tuple[Where, int, list[Span]]]  # with lease, and first, last, attempt


class BeginHere(Verb[bool], frozen=True):
    """Let the group begin in the partitions of the topics that this node leads."""

    name = "begin_queue_group"
    reply_type = bool

    group_id: GroupId
    topics: list[str]


class PeekHere(Verb[list[Peeked]], frozen=True):
    name = "peek"
    reply_type = list[Peeked]

    group_id: GroupId
    topic: str
    count: int


class ReceiverHere:
    """What this node does for others that receive."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._waiting: dict[tuple[NodeId, int], asyncio.Task[object]] = {}
        self._ended: set[tuple[NodeId, int]] = set()

    def serve(self, others: OtherNodes) -> None:
        others.serve(ReceiveHere, self.receive)
        others.serve(EndReceive, self.end_receive)
        others.serve(GiveBack, self.give_back)
        others.serve(BeginHere, self.begin)
        others.serve(PeekHere, self.peek)

    async def receive(self, node_id: NodeId, verb: ReceiveHere) -> list[DeliveryThere]:
        request = ReceiveRequest(
            verb.topics,
            verb.group_id,
            verb.consumer,
            max_messages=verb.max_messages,
            max_bytes=verb.max_bytes,
            visibility_ms=verb.visibility_ms,
        )
        key, task = (node_id, verb.number), asyncio.current_task()
        assert task is not None
        self._waiting[key] = task
        try:
            found = await self._receiver.receive_here(request, verb.wait_ms)
        except asyncio.CancelledError:
            if key not in self._ended:
                raise
            task.uncancel()
            return []
        finally:
            del self._waiting[key]
            self._ended.discard(key)
        return [
            DeliveryThere(each.where, each.lease_id, each.deadline, list(singles(each.chosen)))
            for each in found
        ]

    async def end_receive(self, node_id: NodeId, verb: EndReceive) -> bool:
        task = self._waiting.get((node_id, verb.number))
        if task is None:
            return False
        self._ended.add((node_id, verb.number))
        task.cancel()
        return True

    async def give_back(self, _: NodeId, verb: GiveBack) -> bool:
        self._receiver.release_spans(verb.deliveries)
        return True

    async def begin(self, _: NodeId, verb: BeginHere) -> bool:
        await self._receiver.begin(verb.group_id, verb.topics)
        return True

    async def peek(self, _: NodeId, verb: PeekHere) -> list[Peeked]:
        return await self._receiver.peek_here(verb.group_id, verb.topic, verb.count)


class ReceiverElsewhere:
    """Asks the nodes that lead the partitions of a request."""

    def __init__(self, services: BrokerServices, others: OtherNodes, receiver: Receiver) -> None:
        self._services = services
        self._others = others
        self._receiver = receiver
        self._clock = services.environment.clock
        self._last_number = int.from_bytes(services.environment.random.bytes(6))
        self._turn = 0
        self._begun: dict[tuple[str, ...], list[NodeId]] = {}  # by group and topics

    def leaders(self, topics: Iterable[str]) -> list[NodeId]:
        return self._others.leaders([self._services.topic(name) for name in topics])

    def is_all_here(self, leaders: Sequence[NodeId]) -> bool:
        return leaders == [self._others.node_id]

    # --- receiving --------------------------------------------------------------------------------

    async def receive(
        self, request: ReceiveRequest, wait_ms: int, leaders: list[NodeId]
    ) -> list[DeliveryBatch]:
        """As `Receiver.receive`, from all leaders together."""
        await self.begin(request.group_id, request.topics, leaders)
        deadline = self._clock.instant() + wait_ms * 1_000_000
        refused: dict[NodeId, GoQueueError] = {}
        for node_id in self._in_turn(leaders):
            if found := await self._ask_all([node_id], request, 0, refused):
                return found
        while (left := (deadline - self._clock.instant()) // 1_000_000) > 0:
            leaders = self.leaders(request.topics) or leaders
            if found := await self._wait(request, left, leaders, refused):
                return found
        if leaders and all(node_id in refused for node_id in leaders):
            raise _worst(refused.values())
        return []

    def _in_turn(self, leaders: Sequence[NodeId]) -> list[NodeId]:
        """All of them, another one first each time: no leader's backlog hides another's."""
        self._turn += 1
        at = self._turn % len(leaders) if leaders else 0
        return [*leaders[at:], *leaders[:at]]

    async def _receive_at(
        self, node_id: NodeId, request: ReceiveRequest, wait_ms: int, number: int
    ) -> Found:
        try:
            if node_id == self._others.node_id:
                return await self._receiver.receive_here(request, wait_ms)
            verb = ReceiveHere(
                number,
                list(request.topics),
                request.group_id,
                request.consumer,
                request.max_messages,
                request.max_bytes,
                request.visibility_ms,
                wait_ms,
            )
            found = await self._others.ask(node_id, verb, wait_ms / 1000 + ANSWER_SECONDS)
        except GoQueueError as error:
            return error
        return [
            DeliveryBatch(each.where, each.lease_id, each.deadline, list(each.messages))
            for each in found
        ]

    async def _wait(
        self,
        request: ReceiveRequest,
        wait_ms: int,
        leaders: Sequence[NodeId],
        refused: dict[NodeId, GoQueueError],
    ) -> list[DeliveryBatch]:
        """Wait here and at some others at once, for all of the time or a part of it."""
        me = self._others.node_id
        here = [me] if me in leaders else []
        elsewhere = [each for each in self._in_turn(leaders) if each != me]
        if len(elsewhere) > AT_ONCE:
            wait_ms = min(wait_ms, SLICE_MS)
        nodes = [*here, *elsewhere[:AT_ONCE]]
        found = await self._ask_all(nodes, request, wait_ms, refused)
        if not found and all(node_id in refused for node_id in nodes):
            await self._clock.sleep(min(PAUSE_SECONDS, wait_ms / 1000))
        return found

    async def _ask_all(
        self,
        nodes: Sequence[NodeId],
        request: ReceiveRequest,
        wait_ms: int,
        refused: dict[NodeId, GoQueueError],
    ) -> list[DeliveryBatch]:
        """What the first of the nodes that has some delivers; `refused` is brought up to date."""
        numbers = {node_id: self._next_number() for node_id in nodes}
        async with owned_tasks() as tasks:
            waits = {
                tasks.create_task(self._receive_at(node_id, request, wait_ms, number)): node_id
                for node_id, number in numbers.items()
            }
            try:
                await _first_found(waits)
            except asyncio.CancelledError:
                await self._end(waits, numbers)
                await self.give_back(_deliveries(waits))
                raise
            await self._end(waits, numbers)
        for task, node_id in waits.items():
            outcome = [] if task.cancelled() else task.result()
            if isinstance(outcome, GoQueueError):
                refused[node_id] = outcome
            else:
                refused.pop(node_id, None)
        return await self._keep(_deliveries(waits), request.max_messages)

    async def _end(
        self, waits: dict[asyncio.Task[Found], NodeId], numbers: dict[NodeId, int]
    ) -> None:
        """Return when nobody waits any more."""
        pending = [task for task in waits if not task.done()]
        if not pending:
            return
        for task in pending:
            if waits[task] == self._others.node_id:
                task.cancel()
        asked = [waits[task] for task in pending if waits[task] != self._others.node_id]
        verbs = (self._ask_to_end(node_id, numbers[node_id]) for node_id in asked)
        await asyncio.gather(*verbs)
        await asyncio.wait(pending)

    async def _ask_to_end(self, node_id: NodeId, number: int) -> None:
        try:
            await self._others.ask(node_id, EndReceive(number))
        except GoQueueError:  # it is gone, and so is what it delivered
            return

    async def _keep(
        self, deliveries: list[DeliveryBatch], max_messages: int
    ) -> list[DeliveryBatch]:
        """What was asked for; when several nodes had something, the rest goes back."""
        kept: list[DeliveryBatch] = []
        rest: list[DeliveryBatch] = []
        left = max_messages
        for each in deliveries:
            fits = not kept or each.count <= left
            (kept if fits else rest).append(each)
            left -= each.count if fits else 0
        if rest:
            await self.give_back(rest)
        return kept

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    # --- the rest ---------------------------------------------------------------------------------

    async def begin(self, group_id: GroupId, topics: Sequence[str], leaders: list[NodeId]) -> None:
        """Let the group begin in all partitions at once, as it does where one node has them."""
        key = (group_id, *topics)
        if self._begun.get(key) == leaders:
            return
        for node_id in leaders:
            if node_id == self._others.node_id:
                await self._receiver.begin(group_id, topics)
                continue
            try:
                await self._others.ask(node_id, BeginHere(group_id, list(topics)))
            except GoQueueError as error:
                if not error.retriable:
                    raise
                return  # it begins there when it is reached
        if len(self._begun) >= BEGUN_MAX:
            self._begun.clear()
        self._begun[key] = leaders

    def forget(self, group_id: GroupId) -> None:
        for key in [key for key in self._begun if key[0] == group_id]:
            del self._begun[key]

    async def give_back(self, deliveries: Sequence[DeliveryBatch]) -> None:
        """The caller has gone: let others have the messages at once."""
        by_leader: dict[NodeId, list[DeliveryBatch]] = {}
        for each in deliveries:
            try:
                topic = self._services.topic(each.where.topic)
                leader = self._others.leader(topic, each.where.partition)
            except GoQueueError:  # their time will run out
                continue
            by_leader.setdefault(leader, []).append(each)
        for leader, some in by_leader.items():
            if leader == self._others.node_id:
                self._receiver.release(some)
                continue
            spans = [(each.where, each.lease_id, each.spans()) for each in some]
            try:
                await self._others.ask(leader, GiveBack(spans))
            except GoQueueError:
                continue

    async def peek(
        self,
        group_id: GroupId,
        topic: str,
        count: int,
        leaders: Sequence[NodeId],
        missing: dict[TopicPartition, GoQueueError],
    ) -> list[Peeked]:
        """What each leader would deliver next, in turn."""
        answers = await self._others.ask_each(
            dict.fromkeys(self._in_turn(leaders), PeekHere(group_id, topic, count))
        )
        refused = {node: each for node, each in answers.items() if isinstance(each, GoQueueError)}
        self._others.note_missing(self._services.topic(topic), refused, missing)
        if refused and len(refused) == len(answers):
            raise _worst(refused.values())
        turns = [iter(each) for each in answers.values() if not isinstance(each, GoQueueError)]
        found = itertools.zip_longest(*turns)
        every = (each for turn in found for each in turn if each is not None)
        return list(itertools.islice(every, count))


async def _first_found(waits: Iterable[asyncio.Task[Found]]) -> None:
    """Return when one has messages, or all are over."""
    pending = set(waits)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if _deliveries(done):
            return


def _deliveries(waits: Iterable[asyncio.Task[Found]]) -> list[DeliveryBatch]:
    found: list[DeliveryBatch] = []
    for task in waits:
        outcome = [] if task.cancelled() else task.result()
        if isinstance(outcome, list):
            found += outcome
    return found


def _worst(refused: Iterable[GoQueueError]) -> GoQueueError:
    """The one that tells a consumer most: its own limit before what is wrong with nodes."""
    every = list(refused)
    crowded = [each for each in every if isinstance(each, TooManyInFlight)]
    others = [each for each in every if not isinstance(each, NotLeader)]
    return (crowded or others or every)[0]
