"""What this node asks of the other nodes, and does for them: verbs for what a node leads or
coordinates.

A verb goes to one node, and never further: whoever is asked does it here or refuses.  What may have
been done is never asked twice; what was not (`nothing_done`) may be asked of the next leader, while
the `WaitDeadline` of who asks is not over.  On a single broker there is no `OtherNodes`, and nobody
looks for one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from goqueue.broker.cluster.peer import Peers
from goqueue.broker.traces.requester import Requester, requester
from goqueue.cluster import NO_LEADER, Metadata, Topic
from goqueue.model.errors import (
    GoQueueError,
    InvalidRequest,
    LeadershipLost,
    NodeUnreachable,
    NotLeader,
    Uncertain,
)
from goqueue.model.ids import GroupId, NodeId, TopicPartition
from goqueue.runtime import Clock
from goqueue.wire.node_messages import NodeVerb, Refusal, VerbReply, error_of

ANSWER_SECONDS: Final = 10.0
LOOK_AGAIN_SECONDS: Final = 0.05  # for another leader
_NOTHING_DONE: Final = (NodeUnreachable, NotLeader)

ReplyT = TypeVar("ReplyT")
VerbT = TypeVar("VerbT", bound="Verb[Any]")
CarryOut = Callable[[NodeId, Any], Awaitable[object]]


class Verb(msgspec.Struct, Generic[ReplyT], frozen=True):
    """What is asked; `name` is how nodes call it, also nodes of other versions."""

    name: ClassVar[str]
    reply_type: ClassVar[Any]


def nothing_done(outcome: object) -> bool:
    """Whether it is an error that says so.  A leader that was deposed may have written it."""
    return isinstance(outcome, _NOTHING_DONE) and not isinstance(outcome, LeadershipLost)


class WaitDeadline:
    """How long somebody waits for a leader that can be reached."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._ends = clock.instant() + int(seconds * 1e9)

    @property
    def left(self) -> float:
        """In seconds."""
        return max(0.0, (self._ends - self._clock.instant()) / 1e9)

    async def look_again(self) -> bool:
        """After a moment, in which another leader may have been elected; False: time is up."""
        await self._clock.sleep(LOOK_AGAIN_SECONDS)
        return self.left > 0


class OtherNodes:
    def __init__(
        self,
        node_id: NodeId,
        peers: Peers,
        metadata: Callable[[], Metadata],
        coordinator_of: Callable[[GroupId], NodeId],
    ) -> None:
        self.node_id = node_id
        self._peers = peers
        self._metadata = metadata
        self._coordinator_of = coordinator_of
        self._served: dict[str, tuple[type[Verb[Any]], CarryOut]] = {}

    # --- who is asked -----------------------------------------------------------------------------

    def leader(self, topic: Topic, index: int) -> NodeId:
        """Raises `NotLeader` while the partition has none."""
        leader = self._metadata().partition(topic.topic_id, index).leader
        if leader == NO_LEADER:
            raise NotLeader(f"{topic.name}-{index} has no leader at the moment")
        return leader

    def leaders(self, topics: Iterable[Topic]) -> list[NodeId]:
        """The nodes, this one too, that lead partitions of the topics; in order."""
        partitions = self._metadata().partitions
        found = {state.leader for topic in topics for state in partitions.of(topic.topic_id)}
        return sorted(found - {NO_LEADER})

    def replication_factor(self, topic: Topic) -> int:
        """How many replicas its partitions are to have, as the first one's says."""
        state = self._metadata().partition(topic.topic_id, 0)
        return len(state.replicas) - len(state.removing)

    def coordinator(self, group_id: GroupId) -> NodeId | None:
        """The other node that coordinates the group; None: this one does."""
        found = self._coordinator_of(group_id)
        return None if found == self.node_id else found

    def note_missing(
        self,
        topic: Topic,
        refused: Mapping[NodeId, GoQueueError],
        missing: dict[TopicPartition, GoQueueError],
    ) -> None:
        """Which partitions of the topic nobody told of: these leaders refused, or there is none."""
        for index in range(topic.partitions):
            try:
                problem = refused.get(self.leader(topic, index))
            except NotLeader as error:
                problem = error
            if problem is not None:
                missing[TopicPartition(topic.name, index)] = problem

    @property
    def live(self) -> list[NodeId]:
        """The others that answer, as the metadata has it; in order."""
        nodes = self._metadata().nodes
        return sorted(each for each in nodes if each != self.node_id and nodes.live(each))

    # --- asking -----------------------------------------------------------------------------------

    def wait_deadline(self, seconds: float) -> WaitDeadline:
        return WaitDeadline(self._peers.clock, seconds)

    async def ask(
        self, node_id: NodeId, verb: Verb[ReplyT], seconds: float = ANSWER_SECONDS
    ) -> ReplyT:
        """What the other node answers; this one carries it out itself.

        Raises what it refused with, `NodeUnreachable` when it was not asked, and `Uncertain` when
        it was and did not answer.
        """
        if node_id == self.node_id:
            _, carry_out = self._served[verb.name]
            done: ReplyT = await carry_out(node_id, verb)  # type: ignore[assignment] # as it says
            return done
        body, asking = msgspec.Raw(msgspec.msgpack.encode(verb)), requester.get()
        request = NodeVerb(verb.name, body)
        if asking is not None:
            request = NodeVerb(verb.name, body, asking.client, asking.address)
        try:
            answer = await self._peers.of(node_id).ask(request, seconds)
        except NodeUnreachable as error:
            raise NodeUnreachable(f"node {node_id} is not reached: {error}") from error
        except Uncertain as error:
            text = f"node {node_id} did not answer: it may have done what it was asked, or not yet"
            raise Uncertain(f"{text} ({verb.name}: {error})") from error
        reply: ReplyT = msgspec.msgpack.decode(answer.body, type=verb.reply_type)
        return reply

    async def ask_each(
        self, verbs: Mapping[NodeId, Verb[ReplyT]], seconds: float = ANSWER_SECONDS
    ) -> dict[NodeId, ReplyT | GoQueueError]:
        """What each of the nodes answers, or why it does not; all are asked at once."""

        async def ask(node_id: NodeId, verb: Verb[ReplyT]) -> ReplyT | GoQueueError:
            try:
                return await self.ask(node_id, verb, seconds)
            except GoQueueError as error:
                return error

        answers = await asyncio.gather(*(ask(node_id, verb) for node_id, verb in verbs.items()))
        return dict(zip(verbs, answers, strict=True))

    # --- serving ----------------------------------------------------------------------------------

    def serve(
        self, verb: type[VerbT], carry_out: Callable[[NodeId, VerbT], Awaitable[Any]]
    ) -> None:
        """Have the verb carried out for the nodes that ask."""
        self._served[verb.name] = verb, carry_out

    async def answer(self, node_id: NodeId, request: NodeVerb) -> VerbReply:
        """For the cluster listener."""
        known = self._served.get(request.verb)
        if known is None:
            raise InvalidRequest(
                f"this node knows no verb {request.verb!r}: it may be an older one"
            )
        kind, carry_out = known
        try:
            verb = msgspec.msgpack.decode(request.body, type=kind)
        except msgspec.MsgspecError as error:
            raise InvalidRequest(f"verb {request.verb!r}: {error}") from error
        if request.address:
            received = int(asyncio.get_running_loop().time() * 1e9)
            requester.set(Requester(request.address, request.client, received))
        else:
            requester.set(None)  # the other node asks for itself
        reply = await carry_out(node_id, verb)
        return VerbReply(msgspec.Raw(msgspec.msgpack.encode(reply)))


# --- outcomes, of which some are errors -----------------------------------------------------------


class Outcome(msgspec.Struct, Generic[ReplyT], frozen=True, array_like=True):
    """One of many: done, or why not."""

    done: ReplyT | None = None
    refusal: Refusal | None = None

    def read(self) -> ReplyT | GoQueueError:
        if self.refusal is not None:
            return error_of(self.refusal)
        assert self.done is not None, "it is one of both"
        return self.done


def outcome_of(given: ReplyT | GoQueueError) -> Outcome[ReplyT]:
    if isinstance(given, GoQueueError):
        return Outcome(None, Refusal(given.code, str(given)))
    return Outcome(given)
