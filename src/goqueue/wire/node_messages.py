"""What nodes of a cluster say to each other on the cluster port, beside Kafka's own messages.

Kafka's framing (`frames`), with numbers of our own from 20,000 on.  Kafka's registration has no
place for how often a data directory was started, none of its messages one for a shared secret, and
none carries verbs of queues.  A body is msgpack, fields by name: a node that is newer may add
fields, and one that is older skips them.

    request    header | msgpack of the request
    answer     header | 0 | msgpack of the reply        done
               header | 1 | msgpack of a `Refusal`      a `GoQueueError` over there

Answers come in the order of the requests, but for those `OUT_OF_TURN`: they may wait long.

The first two requests of every connection prove who asks: see `goqueue.broker.cluster.handshake`.
"""

import enum
from collections.abc import Hashable, Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.markers import Marker
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.primitives import INT32, Buffer, nullable_string

PROTOCOL: Final = 1  # raised when a node could not understand an older one
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024  # of a request, and of an answer
TEXT_BYTES_MAX: Final = 2_000  # of a refusal
DONE, REFUSED = b"\x00", b"\x01"

ReplyT = TypeVar("ReplyT")


@enum.unique
class NodeApi(enum.IntEnum):
    HELLO = 20_000
    PROVE = 20_001
    METADATA_FOLLOW = 20_002
    METADATA_END = 20_003
    REGISTER_NODE = 20_004
    NODE_HEARTBEAT = 20_005
    FORWARD = 20_006
    ASK_CONTROLLER = 20_020
    FIND_ORPHANS = 20_024
    ADMIT_TO_TRANSACTION = 20_030
    END_TRANSACTION = 20_031
    HTTP_CALL = 20_040
    HTTP_MORE = 20_041
    HTTP_LEAVE = 20_042
    VERB = 20_043


class NodeRequest(msgspec.Struct, Generic[ReplyT], frozen=True):
    """A request, and what its reply is."""

    api: ClassVar[NodeApi]
    reply_type: ClassVar[type[Any]]


class Nothing(msgspec.Struct, frozen=True):
    """Done, and there is no more to say."""


class Refusal(msgspec.Struct, frozen=True):
    code: str  # of the `GoQueueError`
    text: str


# --- who is there ---------------------------------------------------------------------------------


class HelloReply(msgspec.Struct, frozen=True):
    node_id: int
    cluster_id: str
    nonce: bytes
    proof: bytes  # that this node knows the secret, too


class Hello(NodeRequest[HelloReply], frozen=True):
    api = NodeApi.HELLO
    reply_type = HelloReply

    protocol: int
    node_id: int
    cluster_id: str  # empty: of a node that has not joined any
    nonce: bytes


class Prove(NodeRequest[Nothing], frozen=True):
    api = NodeApi.PROVE
    reply_type = Nothing

    proof: bytes


# --- metadata -------------------------------------------------------------------------------------


class MetadataPart(msgspec.Struct, frozen=True):
    """Entries from an index on; or a part of the snapshot that stands for all entries below it."""

    index: int
    values: list[bytes]
    is_snapshot: bool = False
    is_last: bool = True  # part of the snapshot
    snapshot_bytes: int = 0  # as it is stored


class MetadataFollow(NodeRequest[MetadataPart], frozen=True):
    """What is committed from `start` on; waits for a while when there is nothing.

    A snapshot may take several answers: `snapshot` is the index of the one that is being read, and
    `skip` how many of its values are known.  A receiver that gets another one starts over.
    """

    api = NodeApi.METADATA_FOLLOW
    reply_type = MetadataPart

    start: int
    wait_ms: int
    snapshot: int = -1
    skip: int = 0


class MetadataEndReply(msgspec.Struct, frozen=True):
    end: int


class MetadataEnd(NodeRequest[MetadataEndReply], frozen=True):
    api = NodeApi.METADATA_END
    reply_type = MetadataEndReply


# --- membership -----------------------------------------------------------------------------------


class NodeAccepted(msgspec.Struct, frozen=True):
    epoch: int  # of the node, until it registers again
    end: int  # of the metadata: the registration is below


class RegisterNode(NodeRequest[NodeAccepted], frozen=True):
    api = NodeApi.REGISTER_NODE
    reply_type = NodeAccepted

    node_id: int
    directory_id: str
    incarnation: int
    addresses: dict[str, str]  # HOST:PORT by listener: kafka, http, cluster
    rack: str = ""
    machine: str = ""
    features: dict[str, tuple[int, int]] = {}  # the lowest and the highest level that it supports


class HeartbeatReply(msgspec.Struct, frozen=True):
    is_registered: bool  # False: this controller is new, and has to be told who is there


class NodeHeartbeat(NodeRequest[HeartbeatReply], frozen=True):
    api = NodeApi.NODE_HEARTBEAT
    reply_type = HeartbeatReply

    node_id: int
    epoch: int
    applied: int  # the first index of the metadata that this node does not show yet


class ControllerHeard(msgspec.Struct, frozen=True):
    is_heard: bool  # by the node that was asked, or it knows of a newer controller


class AskController(NodeRequest[ControllerHeard], frozen=True):
    """Whether the other node hears the controller that has this term."""

    api = NodeApi.ASK_CONTROLLER
    reply_type = ControllerHeard

    term: int


# --- verbs for the controller ---------------------------------------------------------------------


class Forwarded(msgspec.Struct, frozen=True):
    end: int  # of the metadata: what was decided is below
    reply: msgspec.Raw


class Forward(NodeRequest[Forwarded], frozen=True):
    """A verb that only the controller decides; never passed on a second time."""

    api = NodeApi.FORWARD
    reply_type = Forwarded

    verb: str  # for people; the body names it, too
    body: msgspec.Raw


# --- transactions ---------------------------------------------------------------------------------


class AdmitToTransaction(NodeRequest[Nothing], frozen=True):
    """A partition's leader asks the coordinator whether the producer may append there.

    With `group` it is a group's coordinator, and about offsets of the group.
    """

    api = NodeApi.ADMIT_TO_TRANSACTION
    reply_type = Nothing

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic: str
    partition: int
    adds: bool  # the partition, or the group, to the transaction, if need be
    group: str = ""


class EndTransaction(NodeRequest[Nothing], frozen=True):
    """The coordinator has a partition's leader, or that of a group, end a transaction there."""

    api = NodeApi.END_TRANSACTION
    reply_type = Nothing

    topic: str
    partition: int
    marker: Marker
    is_ledger: bool = False  # the acks that wait in its queue ledger; else its records
    group: str = ""  # the offsets that wait in the group; there is no partition


class Orphan(msgspec.Struct, frozen=True):
    """A transaction that is open in a partition, and that its coordinator will not end."""

    producer_id: int
    epoch: int
    ended_at: int  # when the producer's last one there was decided
    coordinator_epoch: int
    committed_by: str = ""  # the transactional id, if it was committed and lacks its marker
    marker_epoch: int = -1  # of that marker


class FindOrphans(NodeRequest[list[Orphan]], frozen=True):
    """A partition's leader asks a coordinator which of these it will not end.

    With `group` it is a group's coordinator, and about offsets that wait in the group.
    """

    api = NodeApi.FIND_ORPHANS
    reply_type = list[Orphan]

    topic: str
    partition: int
    opened: Sequence[tuple[int, int, int]]  # producer id, epoch, `ended_at` as above
    shards: Sequence[int] = (0,)  # for which the other node answers, or refuses
    group: str = ""


# --- requests of clients, at the node that they belong to -----------------------------------------


class HttpPart(msgspec.Struct, frozen=True):
    """A part of an answer; there is nothing yet while it has neither a status nor a body."""

    status: int = 0  # of the first part
    headers: list[tuple[bytes, bytes]] = []
    body: bytes = b""
    is_last: bool = False
    is_stream: bool = False  # its parts are for the client as they come


class HttpCall(NodeRequest[HttpPart], frozen=True):
    """A whole HTTP request.  Whoever asks has checked where it comes from."""

    api = NodeApi.HTTP_CALL
    reply_type = HttpPart

    number: int  # by which the sender names it
    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    client: tuple[str, int] | None
    scheme: str
    prefix: str  # that a proxy puts before the paths
    host: tuple[str, int] | None  # where the client connected to
    user: str = ""  # who asks, when that is known
    roles: tuple[str, ...] = ()  # that came with it
    tenant: str = ""  # the same


class HttpMore(NodeRequest[HttpPart], frozen=True):
    """The next part of the answer to a call."""

    api = NodeApi.HTTP_MORE
    reply_type = HttpPart

    number: int


class HttpLeave(NodeRequest[Nothing], frozen=True):
    """The client of a call has gone: the call may end as it would with a client of its own."""

    api = NodeApi.HTTP_LEAVE
    reply_type = Nothing

    number: int


class VerbReply(msgspec.Struct, frozen=True):
    body: msgspec.Raw


class NodeVerb(NodeRequest[VerbReply], frozen=True):
    """A verb of a family of the broker, for what the other node leads or coordinates."""

    api = NodeApi.VERB
    reply_type = VerbReply

    verb: str
    body: msgspec.Raw
    client: str = ""  # who asked the node that asks, if anybody did
    address: str = ""


# What is answered when it is done, whatever was asked before it on the same connection.
OUT_OF_TURN: Final = frozenset(
    {
        NodeApi.FIND_ORPHANS,
        NodeApi.ADMIT_TO_TRANSACTION,
        NodeApi.END_TRANSACTION,
        NodeApi.HTTP_CALL,
        NodeApi.HTTP_MORE,
        NodeApi.HTTP_LEAVE,
        NodeApi.VERB,
    }
)

REQUESTS: Final[dict[int, type[NodeRequest[Any]]]] = {
    each.api: each
    for each in (
        Hello,
        Prove,
        MetadataFollow,
        MetadataEnd,
        RegisterNode,
        NodeHeartbeat,
        Forward,
        AskController,
        AdmitToTransaction,
        EndTransaction,
        FindOrphans,
        HttpCall,
        HttpMore,
        HttpLeave,
        NodeVerb,
    )
}

# --- bytes ----------------------------------------------------------------------------------------

_encoder = msgspec.msgpack.Encoder()
_CLIENT_ID: Final = nullable_string(None, flexible=False)


def encode_node_request(correlation_id: int, request: NodeRequest[Any]) -> bytes:
    """A frame, with its size before it."""
    body = _encoder.encode(request)
    head = request.api.to_bytes(2) + b"\x00\x00" + INT32.pack(correlation_id) + _CLIENT_ID
    return INT32.pack(len(head) + len(body)) + head + body


def decode_node_request(api: int, body: Buffer) -> NodeRequest[Any]:
    try:
        request: NodeRequest[Any] = _decoder(REQUESTS[api]).decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedRequest(f"{NodeApi(api).name.lower()}: {error}") from error
    return request


def encode_done(reply: object) -> list[Buffer]:
    return [DONE, _encoder.encode(reply)]


def encode_refusal(error: GoQueueError) -> list[Buffer]:
    text = str(error).encode()[:TEXT_BYTES_MAX].decode(errors="ignore")
    return [REFUSED, _encoder.encode(Refusal(error.code, text))]


def decode_answer(frame: bytearray, reply_type: type[ReplyT]) -> ReplyT:
    """The reply; raises the error of the other node, or `MalformedRequest`."""
    kind, body = frame[4:5], memoryview(frame)[5:]
    try:
        if kind == DONE:
            reply: ReplyT = _decoder(cast(Any, reply_type)).decode(body)
            return reply
        if kind != REFUSED:
            raise MalformedRequest(f"an answer of kind {bytes(kind)!r}")
        refusal = _decoder(Refusal).decode(body)
    except msgspec.MsgspecError as error:
        raise MalformedRequest(f"an answer that cannot be read: {error}") from error
    raise error_of(refusal)


def error_of(refusal: Refusal) -> GoQueueError:
    """The same kind of error as over there, if this node knows it."""
    kind = next((each for each in _kinds(GoQueueError) if each.code == refusal.code), GoQueueError)
    try:
        return kind(refusal.text)
    except TypeError:  # it wants more than a text
        return GoQueueError(refusal.text)


def _kinds(kind: type[GoQueueError]) -> Iterator[type[GoQueueError]]:
    """All errors that have been imported, the general before the special."""
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


@cache
def _decoder(kind: Hashable) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(cast("type[Any]", kind))
