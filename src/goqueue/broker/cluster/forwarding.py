"""Verbs that only the controller decides, asked at another node.

The node passes the verb on, waits until its own image shows what was decided, and answers from
that: whoever was answered sees its change at this node.  The controller never passes a verb on.
A verb that was sent and not answered may have been carried out: `Uncertain` says so.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from goqueue.broker.cluster.membership import Membership
from goqueue.broker.metadata.controller import Controller
from goqueue.cluster import Metadata, Topic
from goqueue.cluster.consensus import Index
from goqueue.cluster.controller import ElectionType, IsrChange
from goqueue.cluster.metadata import PartitionState, SecurityRecord
from goqueue.model.errors import Fenced, InvalidRequest, QuorumUnavailable, TimedOut
from goqueue.model.ids import GroupId, NodeEpoch, NodeId, TopicId
from goqueue.wire.node_messages import Forward, Forwarded

FORWARD_SECONDS: Final = 10.0
STOP_SECONDS: Final = 2.0  # for a node that stops: the controller may be stopping, too
ELECTION_SECONDS: Final = 0.1  # between two tries while another controller is elected
ELECTION_TRIES: Final = 30
SHOW_SECONDS: Final = 5.0  # until this node's image has what was decided

ReplyT = TypeVar("ReplyT")
NodeChange = Literal["drain", "undrain", "remove"]


class Verb(msgspec.Struct, frozen=True, tag_field="verb"):
    """Named as the method that carries it out."""


class CreateTopic(Verb, frozen=True, tag="create_topic"):
    name: str
    partitions: int | None
    settings: dict[str, str]
    may_look_alike: bool
    replication_factor: int | None = None
    assignments: list[list[NodeId]] | None = None


class AddPartitions(Verb, frozen=True, tag="add_partitions"):
    name: str
    count: int
    assignments: list[list[NodeId]] | None = None


class ChangeSettings(Verb, frozen=True, tag="change_settings"):
    name: str
    changes: dict[str, str | None]
    replace: bool


class DeleteTopic(Verb, frozen=True, tag="delete_topic"):
    name: str


class ReserveProducerIds(Verb, frozen=True, tag="reserve_producer_ids"):
    count: int


class ChangeGroupConfig(Verb, frozen=True, tag="change_group_config"):
    group_id: GroupId
    changes: dict[str, str | None]
    if_set: dict[str, str]


class ChangeBrokerConfig(Verb, frozen=True, tag="change_broker_config"):
    node: str
    changes: dict[str, str | None]


class ChangeSecurity(Verb, frozen=True, tag="change_security"):
    changes: list[SecurityRecord]


class RaiseFeatures(Verb, frozen=True, tag="raise_features"):
    levels: dict[str, int]


class AlterPartition(Verb, frozen=True, tag="alter_partition"):
    """Of the leader that sends it."""

    node_epoch: NodeEpoch
    change: IsrChange


class NoteDataRemoved(Verb, frozen=True, tag="note_data_removed"):
    """Of the node that sends it."""

    topic_ids: list[TopicId]


class HandOver(Verb, frozen=True, tag="hand_over"):
    """Of the node that sends it, which is about to stop."""

    limit: int


class Leave(Verb, frozen=True, tag="leave"):
    """Of the node that sends it, which stops now."""


class ChangeNode(Verb, frozen=True, tag="change_node"):
    node_id: NodeId
    change: NodeChange


class ElectLeader(Verb, frozen=True, tag="elect_leader"):
    topic_id: TopicId
    partition: int
    election_type: ElectionType


class ReassignPartition(Verb, frozen=True, tag="reassign_partition"):
    topic_id: TopicId
    partition: int
    replicas: list[NodeId] | None  # None: the move that is under way is cancelled


AnyVerb = (
    CreateTopic
    | AddPartitions
    | ChangeSettings
    | DeleteTopic
    | ReserveProducerIds
    | ChangeGroupConfig
    | ChangeBrokerConfig
    | ChangeSecurity
    | RaiseFeatures
    | AlterPartition
    | NoteDataRemoved
    | HandOver
    | Leave
    | ElectLeader
    | ReassignPartition
    | ChangeNode
)

_decoder: msgspec.msgpack.Decoder[AnyVerb] = msgspec.msgpack.Decoder(AnyVerb)


# --- the node that is asked -----------------------------------------------------------------------


class Forwarding:
    """The verbs, as the broker of the controller has them."""

    def __init__(
        self,
        membership: Membership,
        controller: Controller,
        problem: Callable[[], str] = lambda: "",
        here: Callable[[Forward], Awaitable[Forwarded]] | None = None,
    ) -> None:
        """`problem` is why there is no controller, if that is known.  `here` carries a verb out
        when this node becomes the controller before it was passed on.
        """
        self._membership = membership
        self._controller = controller
        self._problem = problem
        self._here = here

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
        may_look_alike: bool = False,
        replication_factor: int | None = None,
        assignments: Sequence[Sequence[NodeId]] | None = None,
    ) -> Topic:
        verb = CreateTopic(
            name,
            partitions,
            dict(settings or {}),
            may_look_alike,
            replication_factor,
            _lists(assignments),
        )
        return self._metadata.topic_by_id(TopicId(await self._send(verb, TopicId)))

    async def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[NodeId]] | None = None
    ) -> Topic:
        topic_id = await self._send(AddPartitions(name, count, _lists(assignments)), TopicId)
        return self._metadata.topic_by_id(topic_id)

    async def change_settings(
        self, name: str, changes: Mapping[str, str | None], *, replace: bool = False
    ) -> Topic:
        verb = ChangeSettings(name, dict(changes), replace)
        return self._metadata.topic_by_id(await self._send(verb, TopicId))

    async def delete_topic(self, name: str) -> Topic:
        if self._metadata.find(name) is None:  # so new, perhaps, that this node has not heard of it
            await self._wait_for(await self._controller.log.end(), "what the controller knows")
        topic = self._metadata.topic(name)
        await self._send(DeleteTopic(name), TopicId)
        return topic

    async def reserve_producer_ids(self, count: int) -> int:
        """The first of so many."""
        return await self._send(ReserveProducerIds(count), int)

    async def change_group_config(
        self, group_id: GroupId, changes: Mapping[str, str | None], if_set: Mapping[str, str]
    ) -> None:
        await self._send(ChangeGroupConfig(group_id, dict(changes), dict(if_set)), type(None))

    async def change_broker_config(self, node: str, changes: Mapping[str, str | None]) -> None:
        await self._send(ChangeBrokerConfig(node, dict(changes)), type(None))

    async def change_security(self, changes: Sequence[SecurityRecord]) -> None:
        await self._send(ChangeSecurity(list(changes)), type(None))

    async def raise_features(self, levels: Mapping[str, int]) -> None:
        await self._send(RaiseFeatures(dict(levels)), type(None))

    async def alter_partition(self, node_epoch: NodeEpoch, change: IsrChange) -> PartitionState:
        return await self._send(AlterPartition(node_epoch, change), PartitionState)

    async def note_data_removed(self, topic_ids: Sequence[TopicId]) -> None:
        await self._send(NoteDataRemoved(list(topic_ids)), type(None))

    async def hand_over(self, limit: int) -> int:
        """How many partitions have another leader now."""
        return await self._send(HandOver(limit), int, STOP_SECONDS)

    async def leave(self) -> None:
        """Nobody here looks at the image any more: it need not show."""
        await self._ask(_request_of(Leave()), STOP_SECONDS)

    async def change_node(self, node_id: NodeId, change: NodeChange) -> None:
        await self._send(ChangeNode(node_id, change), type(None))

    async def elect_leader(
        self, topic_id: TopicId, index: int, election_type: ElectionType
    ) -> PartitionState:
        return await self._send(ElectLeader(topic_id, index, election_type), PartitionState)

    async def reassign_partition(
        self, topic_id: TopicId, index: int, replicas: Sequence[NodeId] | None
    ) -> PartitionState:
        wanted = None if replicas is None else list(replicas)
        return await self._send(ReassignPartition(topic_id, index, wanted), PartitionState)

    @property
    def _metadata(self) -> Metadata:
        return self._controller.image.current

    async def _send(
        self, verb: AnyVerb, reply_type: type[ReplyT], seconds: float = FORWARD_SECONDS
    ) -> ReplyT:
        request = _request_of(verb)
        answer = await self._ask(request, seconds)
        what = f"{request.verb} was carried out, and"
        await self._wait_for(Index(answer.end), what, min(seconds, SHOW_SECONDS))
        return msgspec.msgpack.decode(answer.reply, type=reply_type)

    async def _wait_for(self, end: Index, what: str, seconds: float = SHOW_SECONDS) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._controller.wait_for(end)
        except TimeoutError as error:
            raise TimedOut(f"{what} does not show at this node yet") from error

    async def _ask(self, request: Forward, seconds: float) -> Forwarded:
        """Whoever is the controller by then; it was asked nothing when this raises `Fenced`."""
        for _ in range(ELECTION_TRIES):
            if self._here is not None and self._controller.is_leading:
                return await self._here(request)
            if problem := self._problem():
                raise QuorumUnavailable(
                    f"no node decides about metadata now (setting cluster.quorum): {problem}"
                )
            try:
                return await self._membership.ask(request, seconds)
            except Fenced:  # another one may be elected just now
                await asyncio.sleep(ELECTION_SECONDS)
        return await self._membership.ask(request, seconds)


def _request_of(verb: AnyVerb) -> Forward:
    name = str(verb.__struct_config__.tag)
    return Forward(name, msgspec.Raw(msgspec.msgpack.encode(verb)))


def _lists(assignments: Sequence[Sequence[NodeId]] | None) -> list[list[NodeId]] | None:
    return None if assignments is None else [list(each) for each in assignments]


# --- the controller -------------------------------------------------------------------------------


class Decider(Protocol):
    """The broker of the controller."""

    @property
    def controller(self) -> Controller: ...

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
        may_look_alike: bool = False,
        replication_factor: int | None = None,
        assignments: Sequence[Sequence[NodeId]] | None = None,
    ) -> Topic: ...

    async def add_partitions(
        self, name: str, count: int, *, assignments: Sequence[Sequence[NodeId]] | None = None
    ) -> Topic: ...

    async def change_settings(
        self, name: str, changes: Mapping[str, str | None], *, replace: bool = False
    ) -> Topic: ...

    async def delete_topic(self, name: str) -> Topic: ...

    async def reserve_producer_ids(self, count: int) -> int: ...

    async def change_group_config(
        self, group_id: GroupId, changes: Mapping[str, str | None], if_set: Mapping[str, str]
    ) -> None: ...

    async def change_broker_config(self, node: str, changes: Mapping[str, str | None]) -> None: ...

    async def change_security(self, changes: Sequence[SecurityRecord]) -> None: ...

    async def raise_features(self, levels: Mapping[str, int]) -> None: ...

    async def alter_partition(
        self, node_id: NodeId, node_epoch: NodeEpoch, change: IsrChange
    ) -> PartitionState: ...

    async def note_data_removed(self, node_id: NodeId, topic_ids: Sequence[TopicId]) -> None: ...

    async def hand_over(self, node_id: NodeId, limit: int) -> int: ...

    async def leave(self, node_id: NodeId) -> None: ...

    async def change_node(self, node_id: NodeId, change: NodeChange) -> None: ...

    async def elect_leader(
        self, topic_id: TopicId, index: int, election_type: ElectionType
    ) -> PartitionState: ...

    async def reassign_partition(
        self, topic_id: TopicId, index: int, replicas: Sequence[NodeId] | None
    ) -> PartitionState: ...


async def carry_out(broker: Decider, node_id: NodeId, request: Forward) -> Forwarded:
    """Decide here, or refuse: nothing is passed on a second time."""
    if not broker.controller.is_leading:
        raise Fenced("this node is not the controller, and passes nothing on")
    try:
        verb = _decoder.decode(request.body)
    except msgspec.MsgspecError as error:
        raise InvalidRequest(f"verb {request.verb!r}: {error}") from error
    reply = await _carry_out(broker, node_id, verb)
    end = broker.controller.journal.committed_end
    return Forwarded(end, msgspec.Raw(msgspec.msgpack.encode(reply)))


async def _carry_out(broker: Decider, node_id: NodeId, verb: AnyVerb) -> Any:
    match verb:
        case CreateTopic():
            created = await broker.create_topic(
                verb.name,
                partitions=verb.partitions,
                settings=verb.settings,
                may_look_alike=verb.may_look_alike,
                replication_factor=verb.replication_factor,
                assignments=verb.assignments,
            )
            return created.topic_id
        case AddPartitions():
            grown = await broker.add_partitions(verb.name, verb.count, assignments=verb.assignments)
            return grown.topic_id
        case ChangeSettings():
            changed = await broker.change_settings(verb.name, verb.changes, replace=verb.replace)
            return changed.topic_id
        case DeleteTopic():
            return (await broker.delete_topic(verb.name)).topic_id
        case ReserveProducerIds():
            return await broker.reserve_producer_ids(verb.count)
        case ChangeGroupConfig():
            return await broker.change_group_config(verb.group_id, verb.changes, verb.if_set)
        case ChangeBrokerConfig():
            return await broker.change_broker_config(verb.node, verb.changes)
        case ChangeSecurity():
            return await broker.change_security(verb.changes)
        case RaiseFeatures():
            return await broker.raise_features(verb.levels)
        case AlterPartition():
            return await broker.alter_partition(node_id, verb.node_epoch, verb.change)
        case NoteDataRemoved():
            return await broker.note_data_removed(node_id, verb.topic_ids)
        case HandOver():
            return await broker.hand_over(node_id, verb.limit)
        case Leave():
            return await broker.leave(node_id)
        case ChangeNode():
            return await broker.change_node(verb.node_id, verb.change)
        case ElectLeader():
            return await broker.elect_leader(verb.topic_id, verb.partition, verb.election_type)
        case ReassignPartition():
            return await broker.reassign_partition(verb.topic_id, verb.partition, verb.replicas)
