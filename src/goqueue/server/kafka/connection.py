"""One client's connection: frames in, handlers in turn, replies out in the order of the requests.

    bytes ──> FrameBuffer ──> frames waiting ──> one handler at a time ──> slots ──> bytes

Requests are handled one after the other, as clients expect; only a Produce may leave its slot open
(its batches are appended, its reply waits for the commit) while the next request is handled.
When too much waits, the socket is no longer read: the peer's buffers fill, not our memory.
"""

import asyncio
import math
import socket
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol, cast

import structlog

from goqueue.broker.traces.requester import Requester, requester
from goqueue.model.batch import Buffer
from goqueue.model.config import KafkaConfig
from goqueue.model.errors import GoQueueError
from goqueue.runtime import write_in_pieces
from goqueue.security import Principal, ScramCredential
from goqueue.server.kafka.reply import ReplySlot
from goqueue.server.server_log import ServerLog
from goqueue.wire.apis import ApiKey
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.frame_buffer import FrameBuffer, HttpRequest
from goqueue.wire.frames import RequestHeader, parse_header

# Requests whose answer may take as long as the client cares to wait.
PATIENT: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.SHARE_FETCH})

LOGIN_BYTES_MAX: Final = 65_536  # of a request of somebody who has not logged in
UNCOUNTED_BYTES: Final = 4096  # of requests, which a connection may hold without being counted

_HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%s\n"
)

_API_NAMES: Final[dict[int, str]] = {api.value: api.name.lower() for api in ApiKey}

_log = structlog.get_logger("goqueue.kafka")


class ConnectionOwner(Protocol):
    """What a connection needs of the listener that accepted it."""

    @property
    def config(self) -> KafkaConfig: ...
    @property
    def receive_buffer(self) -> bytearray: ...
    @property
    def server_log(self) -> ServerLog: ...
    @property
    def port(self) -> str: ...
    @property
    def login_seconds(self) -> float: ...

    def explain_limit(self, limit: str, /) -> str: ...
    def identify(self, transport: asyncio.BaseTransport, /) -> Principal | None: ...
    def admit(self, connection: "KafkaConnection", /) -> bool: ...
    def note_login(self, connection: "KafkaConnection", /) -> None: ...
    def forget(self, connection: "KafkaConnection", /) -> None: ...
    def start_task(self, work: Coroutine[Any, Any, None], /) -> asyncio.Task[None]: ...
    async def handle(
        self, connection: "KafkaConnection", header: RequestHeader, slot: ReplySlot, /
    ) -> None: ...
    def observe(self, api_key: int, seconds: float, /) -> None: ...
    def note_received(
        self, connection: "KafkaConnection", size: int, now: float, /, *, made_progress: bool
    ) -> None: ...
    def unsent(self, connection: "KafkaConnection", size: int, now: float, /) -> None: ...
    def http_answer(self, connection: "KafkaConnection", /) -> str: ...
    def log_closing(self, connection: "KafkaConnection", reason: str, /) -> None: ...


class KafkaConnection(asyncio.BufferedProtocol):
    def __init__(self, listener: ConnectionOwner) -> None:
        self._listener = listener
        self._config = listener.config
        self._frames = FrameBuffer(
            listener.config.request_bytes_max,
            listener.receive_buffer,
            port=listener.port,
            limited_by=listener.explain_limit("request_bytes_max"),
        )
        self._waiting: deque[bytearray] = deque()
        self._waiting_bytes = 0
        self._slots: deque[ReplySlot] = deque()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._api_key: int | None = None  # of the request that is being handled
        self._ended = False  # the peer sends no more
        self._reading = True
        self._may_write = True
        self._is_counted = False  # among those that hold bytes of requests
        self._begun_at: float | None = None  # loop time of the first byte of a part of a request
        self._unread_at = 0.0  # loop time when the peer last read some of the replies
        self._unread_bytes = 0  # that it had not read then
        self.peer = "?"
        self.local_host = ""
        self.last_active = 0.0  # loop time of the last byte either way
        self.closing = False
        self.principal: Principal | None = None  # None: it has to log in first
        self.credential: ScramCredential | None = None  # that it logged in with, if it was one
        self.tenant_id = ""  # among whose connections it is counted
        self._login_until = math.inf  # loop time
        self._unmuting: asyncio.TimerHandle | None = None  # while it is muted
        self.requester = Requester("?")
        self._is_encrypted = False  # TLS has no half-closed connections

    # --- the transport's side ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it
        self.peer = _address(transport.get_extra_info("peername"))
        self.local_host = (transport.get_extra_info("sockname") or ("",))[0]
        handle = transport.get_extra_info("socket")
        if handle is not None:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self.last_active = asyncio.get_running_loop().time()
        self._is_encrypted = transport.get_extra_info("sslcontext") is not None
        self.principal = self._listener.identify(transport)
        if self.principal is None:
            self._frames.frame_bytes_max = LOGIN_BYTES_MAX
            self._login_until = self.last_active + self._listener.login_seconds
        if self._listener.admit(self):
            self._task = self._listener.start_task(self._serve())
        else:
            self.close()

    def log_in(self, principal: Principal, lifetime_ms: int) -> None:
        """It is known who this is: requests may be as large as they may.

        After `lifetime_ms` it has to have logged in again; 0: never.
        """
        if self.principal is None:
            self._listener.note_login(self)
        self.principal = principal
        now = asyncio.get_running_loop().time()
        self._login_until = now + lifetime_ms / 1000 if lifetime_ms else math.inf
        self._frames.frame_bytes_max = self._config.request_bytes_max

    @property
    def host(self) -> str:
        """The peer's address, without its port."""
        return self.peer.rpartition(":")[0]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.space()

    def buffer_updated(self, nbytes: int) -> None:
        now = self.last_active = asyncio.get_running_loop().time()
        frames = self._frames.receive(nbytes)
        partial_bytes = self._frames.held_bytes
        if not partial_bytes:
            self._begun_at = None
        elif frames or self._begun_at is None:
            self._begun_at = now
        if (frames or self._frames.problem) and not self.closing:
            self._waiting.extend(frames)
            self._waiting_bytes += sum(map(len, frames))
            self._read_if_room()
            self._wake_server()
        if self._is_counted or self._waiting_bytes + partial_bytes > UNCOUNTED_BYTES:
            self._note_received(now)

    def eof_received(self) -> bool:
        """Do what was asked before the end, and close then: a Produce with acks=0 still counts.

        What only waits for an answer is left: hardly anybody says its last word and then listens.
        """
        self._ended = True
        return not self._is_encrypted and self.is_busy and self._api_key not in PATIENT

    def pause_writing(self) -> None:
        self._may_write = False
        self._unread_at = asyncio.get_running_loop().time()
        self._note_unsent()

    def resume_writing(self) -> None:
        self._may_write = True
        self.last_active = asyncio.get_running_loop().time()
        self._listener.unsent(self, 0, self.last_active)
        self._wake_server()

    def _note_unsent(self) -> None:
        assert self._transport is not None
        self._unread_bytes = self._transport.get_write_buffer_size()
        now = asyncio.get_running_loop().time()
        self._listener.unsent(self, self._unread_bytes, now)

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self._waiting.clear()
        self._slots.clear()
        self._frames.drop()  # at once: this object may have to wait for the garbage collector
        if self._task is not None:
            self._task.cancel()
        if self._unmuting is not None:
            self._unmuting.cancel()
        self._listener.forget(self)

    # --- handling ---------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Handle requests until the connection ends; whatever goes wrong costs only this one."""
        self.requester.address = self.peer
        requester.set(self.requester)
        try:
            while not self.closing:
                await self._handle(await self._next_frame())
        except MalformedRequest as error:
            self._give_up(error)
        except Exception:
            _log.exception("request failed, closing the connection", peer=self.peer)
            self.close()

    async def _next_frame(self) -> bytearray:
        """The next request, once there is one and the replies before it are not piling up."""
        while not self._waiting or not self._may_write or self._too_many_slots or self._unmuting:
            if self._frames.problem is not None and not self._waiting:
                raise self._frames.problem
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        frame = self._waiting.popleft()
        self._waiting_bytes -= len(frame)
        self._read_if_room()
        if self._is_counted:
            self._note_received(asyncio.get_running_loop().time(), made_progress=True)
        return frame

    def _note_received(self, now: float, *, made_progress: bool = False) -> None:
        """Tell how much is held of requests; for next to nothing, that it is nothing."""
        held = self._waiting_bytes + self._frames.held_bytes
        self._is_counted = held > UNCOUNTED_BYTES
        held = held if self._is_counted else 0
        self._listener.note_received(self, held, now, made_progress=made_progress)

    async def _handle(self, frame: bytearray) -> None:
        header = parse_header(memoryview(frame))
        if self._ended and header.api_key in PATIENT:
            self.close()
            return
        slot = ReplySlot(header, asyncio.get_running_loop().time(), self._send_ready)
        self.requester.client = header.client_id or ""
        self.requester.received_ns = int(slot.started * 1e9)
        self._slots.append(slot)
        self._api_key = header.api_key
        try:
            await self._listener.handle(self, header, slot)
        except MalformedRequest:
            raise
        except GoQueueError as error:
            # Handlers put expected errors into their replies; what comes here has no place in one.
            name = f"{api_name(header.api_key)} v{header.api_version}"
            raise MalformedRequest(f"{name}: {error}") from error
        finally:
            self._api_key = None

    def _send_ready(self, filled: ReplySlot) -> None:
        """Send every reply that is there and whose turn it is."""
        now = self.last_active = asyncio.get_running_loop().time()
        self._listener.observe(filled.api_key, now - filled.started)
        if self._listener.server_log.wants_requests:
            self._log_request(filled, now)
        slots = self._slots
        while slots and slots[0].parts is not None:
            parts = slots.popleft().parts
            if parts and not self.closing:
                self._write(parts)
        if not self._may_write and not self.closing:
            self._note_unsent()
        self._wake_server()
        if self._ended and not self.is_busy:
            self.close()

    def send_out_of_turn(self, parts: list[Buffer]) -> None:
        """A reply that has no slot."""
        if self._transport is None or self.closing:
            return
        self.last_active = asyncio.get_running_loop().time()
        self._write(parts)
        if not self._may_write:
            self._note_unsent()

    def _write(self, parts: list[Buffer]) -> None:
        assert self._transport is not None
        if self._is_encrypted:
            write_in_pieces(self._transport, parts)
        else:
            self._transport.writelines(parts)

    def _log_request(self, slot: ReplySlot, now: float) -> None:
        self._listener.server_log.kafka_request(
            api=api_name(slot.api_key),
            bytes_out=sum(map(len, slot.parts or ())),
            seconds=now - slot.started,
            peer=self.peer,
        )

    # --- flow -------------------------------------------------------------------------------------

    def mute(self, seconds: float) -> None:
        """Handle and read no further request for so long; what is on its way is answered.

        What the peer sends meanwhile waits at the peer: a client that floods takes no memory here.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        if self._unmuting is not None:
            if self._unmuting.when() >= until:
                return
            self._unmuting.cancel()
        self._unmuting = loop.call_at(until, self._unmute)
        self._read_if_room()

    def _unmute(self) -> None:
        self._unmuting = None
        self._read_if_room()
        self._wake_server()

    @property
    def _too_many_slots(self) -> bool:
        return len(self._slots) >= self._config.pending_requests_max

    def _wake_server(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _read_if_room(self) -> None:
        has_room = (
            self._frames.problem is None
            and self._unmuting is None
            and len(self._waiting) < self._config.pending_requests_max
            and self._waiting_bytes < self._config.pending_bytes_max
        )
        if has_room != self._reading and self._transport is not None and not self.closing:
            self._reading = has_room
            if has_room:
                if self._begun_at is not None:  # what was not read could not arrive
                    self._begun_at = asyncio.get_running_loop().time()
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # --- ending -----------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return bool(self._slots or self._waiting)

    def overdue(self, now: float) -> str | None:
        """Why this connection should be closed now, if so."""
        request_s, idle_s = self._config.request_ms / 1000, self._config.idle_ms / 1000
        limited_by = self._listener.explain_limit
        if self._begun_at is not None and self._reading and now - self._begun_at > request_s:
            return f"a request did not arrive whole in time ({limited_by('request_ms')})"
        if not self._may_write and now - self._last_read_by_peer(now) > request_s:
            return f"the client does not read its replies ({limited_by('request_ms')})"
        if now > self._login_until:
            if self.principal is None:
                return "it has not logged in in time (setting auth.login_ms)"
            return "its token has expired, and it has not logged in again"
        if not self.is_busy and now - self.last_active > idle_s:
            return f"idle ({limited_by('idle_ms')})"
        return None

    def _last_read_by_peer(self, now: float) -> float:
        """When it last read something, as far as was looked."""
        assert self._transport is not None
        unread = self._transport.get_write_buffer_size()
        if unread < self._unread_bytes:
            self._unread_at = now
        self._unread_bytes = unread
        return self._unread_at

    def close(self) -> None:
        self.closing = True
        if self._transport is not None:
            self._transport.close()

    def close_when_idle(self) -> None:
        if not self.is_busy:
            self.close()

    def abort(self) -> None:
        self.closing = True
        if self._transport is not None:
            self._transport.abort()

    def _give_up(self, error: MalformedRequest) -> None:
        reason = str(error)
        if isinstance(error, HttpRequest) and self._transport is not None:
            answer = self._listener.http_answer(self)
            reason = f"{reason} ({answer})"
            self._transport.write(_HTTP_ANSWER % (len(answer) + 1, answer.encode()))
        self._listener.log_closing(self, reason)
        self.close()


def api_name(api_key: int) -> str:
    return _API_NAMES.get(api_key, "unknown")


def _address(peer: tuple[str, int] | None) -> str:
    return f"{peer[0]}:{peer[1]}" if peer else "?"
