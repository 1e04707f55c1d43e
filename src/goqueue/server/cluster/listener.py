"""The cluster listener: for the other nodes of the cluster, and nobody else.

The frames, the connections and their bounds are those of the Kafka listener.  A connection says
first who it is (`goqueue.broker.cluster.handshake`); until it has, nothing else is answered.
Requests of a node are carried out at the same time, and answered in their order, but for those that
may wait long (`OUT_OF_TURN`).  Kafka's own requests, by which nodes fetch from each other, are
handled one after the other, as for clients.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from goqueue.broker.cluster.handshake import NONCE_BYTES, Identity, answer_hello, check_proof
from goqueue.model.config import KafkaConfig
from goqueue.model.errors import Fenced, GoQueueError, Overloaded, Unauthorized
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.server.kafka.connection import KafkaConnection
from goqueue.server.kafka.frame_listener import ConnectionMetrics, FrameListener
from goqueue.server.kafka.reply import ReplyOutOfTurn, ReplySlot
from goqueue.server.server_log import ServerLog
from goqueue.wire.apis import ApiKey
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frames import RequestHeader
from goqueue.wire.node_messages import (
    FRAME_BYTES_MAX,
    OUT_OF_TURN,
    REQUESTS,
    Hello,
    HelloReply,
    NodeApi,
    NodeRequest,
    Nothing,
    Prove,
    decode_node_request,
    encode_done,
    encode_refusal,
)

CONNECTIONS_MAX: Final = 512  # a few of each of at most 64 nodes
PENDING_REQUESTS_MAX: Final = 64
STOP_SECONDS: Final = 1.0  # nodes always wait for more, and know that this one leaves
POLLS_MAX: Final = 4_096  # requests of one connection that may wait long

Reply = ReplySlot | ReplyOutOfTurn
Handler = Callable[[NodeId, Any], Awaitable[object]]  # of a request of that node
KafkaHandler = Callable[[NodeId, RequestHeader, ReplySlot], Awaitable[None]]  # fills the slot


class _Caller:
    """Who is at the other end of a connection."""

    def __init__(self) -> None:
        self.greeting: tuple[Hello, HelloReply] | None = None
        self.node_id: NodeId | None = None  # when it is proved
        self.has_beaten = False  # it has sent heartbeats
        self.polls: set[asyncio.Task[None]] = set()  # that wait for news, or for a client's sake

    def end_polls(self) -> None:
        for task in list(self.polls):
            task.cancel()


class ClusterListener(FrameListener):
    name = "cluster"
    port = "cluster"

    def __init__(
        self,
        environment: Environment,
        listen: str,
        identity: Callable[[], Identity],
        handlers: dict[NodeApi, Handler],
        metrics: ConnectionMetrics,
        server_log: ServerLog | None = None,
        on_lost: Callable[[NodeId], None] = lambda _node_id: None,
        kafka_handlers: Mapping[ApiKey, KafkaHandler] | None = None,
    ) -> None:
        """`on_lost` is told when a connection ends of a node that has shown that it is alive."""
        config = KafkaConfig(
            listen=listen,
            request_bytes_max=FRAME_BYTES_MAX,
            connections_max=CONNECTIONS_MAX,
            pending_requests_max=PENDING_REQUESTS_MAX,
            pending_bytes_max=FRAME_BYTES_MAX,
        )
        super().__init__(environment, config, metrics, server_log)
        self._identity = identity
        self._handlers = handlers
        self._kafka_handlers: Mapping[Any, KafkaHandler] = kafka_handlers or {}  # by number
        self._on_lost = on_lost
        self._callers: dict[KafkaConnection, _Caller] = {}
        self._answering: set[asyncio.Task[None]] = set()

    def explain_limit(self, limit: str) -> str:
        return "fixed"

    def http_answer(self, connection: KafkaConnection) -> str:
        return "This is GoQueue's cluster port, for the other nodes of its cluster only"

    def connection_ended(self, connection: KafkaConnection) -> None:
        caller = self._callers.pop(connection, None)
        if caller is not None:
            caller.end_polls()
            if caller.node_id is not None and caller.has_beaten:
                self._on_lost(caller.node_id)

    async def stop(self, seconds: float) -> None:
        for caller in self._callers.values():
            caller.end_polls()
        await super().stop(min(seconds, STOP_SECONDS))
        for task in self._answering:
            task.cancel()

    # --- requests ---------------------------------------------------------------------------------

    async def handle(
        self, connection: KafkaConnection, header: RequestHeader, slot: ReplySlot
    ) -> None:
        caller = self._callers.setdefault(connection, _Caller())
        if header.api_key in self._kafka_handlers and caller.node_id is not None:
            await self._kafka_handlers[header.api_key](caller.node_id, header, slot)
            return
        if header.api_key not in REQUESTS:
            raise MalformedRequest(
                "this port is for the other nodes of the cluster, not for clients"
            )
        request = decode_node_request(header.api_key, header.body)
        try:
            match request:
                case Hello():
                    slot.fill(encode_done(self._greet(caller, request)))
                case Prove():
                    slot.fill(encode_done(self._check(caller, request)))
                case _:
                    reply: Reply = slot
                    if request.api in OUT_OF_TURN:
                        slot.fill(None)
                        reply = ReplyOutOfTurn(header.correlation_id, connection.send_out_of_turn)
                    self._start(caller, request, reply)
        except GoQueueError as error:
            self.log_closing(connection, str(error))
            slot.fill(encode_refusal(error))
            connection.close()

    def _greet(self, caller: _Caller, hello: Hello) -> HelloReply:
        caller.node_id = None
        reply = answer_hello(self._identity(), hello, self._environment.random.bytes(NONCE_BYTES))
        caller.greeting = (hello, reply)
        return reply

    def _check(self, caller: _Caller, prove: Prove) -> Nothing:
        if caller.greeting is None:
            raise Unauthorized("a proof without a greeting")
        hello, reply = caller.greeting
        caller.greeting = None  # one try
        check_proof(self._identity(), hello, reply, prove)
        caller.node_id = NodeId(hello.node_id)
        return Nothing()

    def _start(self, caller: _Caller, request: NodeRequest[Any], slot: Reply) -> None:
        """Its answer comes when it is there; what the node asks next does not wait for it."""
        if caller.node_id is None:
            raise Unauthorized("a request of a node that has not said who it is")
        if len(caller.polls) >= POLLS_MAX:
            slot.fill(encode_refusal(Overloaded(f"more than {POLLS_MAX} requests of a node wait")))
            return
        task = self.start_task(self._answer(caller.node_id, request, slot))
        caller.has_beaten |= request.api is NodeApi.NODE_HEARTBEAT
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        if request.api is NodeApi.METADATA_FOLLOW or request.api in OUT_OF_TURN:
            caller.polls.add(task)
            task.add_done_callback(caller.polls.discard)

    async def _answer(self, node_id: NodeId, request: NodeRequest[Any], slot: Reply) -> None:
        try:
            handler = self._handlers.get(request.api)
            if handler is None:
                raise Fenced("this node is not the controller")
            slot.fill(encode_done(await handler(node_id, request)))
        except GoQueueError as error:
            slot.fill(encode_refusal(error))
        except asyncio.CancelledError:
            slot.fill(None)  # its connection is over
            raise
        except Exception:
            self._log.exception("a request of another node failed", node=node_id)
            slot.fill(encode_refusal(GoQueueError(f"node {self._identity().node_id} failed")))
