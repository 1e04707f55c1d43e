"""One HTTP connection: uvicorn's, with the bounds it leaves out.

    head       a request's head, and whatever else is parsed but not handed on, has a size limit
    arrival    a request that has begun must be whole within a time; so must the first one begin
    number     connections beyond twice the configured number are closed at once
    leaving    a peer that reads no answer does not keep its connection for ever

Bytes that are no HTTP get a 400 and cost this connection, nothing else.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

import httptools
import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from goqueue.security import Principal
from goqueue.server.http.security.identity import PRINCIPAL_KEY
from goqueue.server.metrics import Metrics
from goqueue.server.tls import certificate_principal

HEAD_BYTES_MAX: Final = 65_536
GATHERED_BYTES_MAX: Final = 65_536  # of an answer; more is sent without waiting for the loop
ARRIVAL_SECONDS_MAX: Final = 60.0  # from a request's first byte to its last

_log = structlog.get_logger("goqueue.http")


class _TooLarge(Exception):
    """Raised inside a parser callback; the parser hands it on as its own error's cause."""


class _Gathering:
    """A transport that sends what is written in one go, when the loop comes round.

    uvicorn writes a head and a body; sent one by one they cost two system calls and wake the peer
    twice.  What is written to one that is closing is dropped, as asyncio's own do; uvloop's raise,
    and a handler may write before it is told that its client has gone.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def write(self, data: bytes) -> None:
        if not self._pending:
            self._loop.call_soon(self._send)
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes >= GATHERED_BYTES_MAX:
            self._send()

    def _send(self) -> None:
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if pending and not self._transport.is_closing():
            self._transport.writelines(pending)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size() + self._pending_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class HttpConnection(HttpToolsProtocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        metrics: Metrics,
        connections_max: int,
        principal_rules: list[str],
        admit: Callable[[str], bool],
        forget: Callable[[str], None],
    ) -> None:
        """`admit` and `forget` count the connections of an address."""
        super().__init__(config, server_state, app_state={})
        self._admit = admit
        self._forget = forget
        self._address: str | None = None  # if it is counted
        self._principal_rules = principal_rules
        self._principal: Principal | None = None  # that the client's certificate names
        self._metrics = metrics
        self._connections_max = connections_max
        self._arrival: asyncio.TimerHandle | None = None
        self._is_arriving = False  # a request has begun and is not whole
        self._head_bytes = 0  # of this request's head and trailers, as handed on by the parser
        self._unseen_bytes = 0  # received since the parser last handed anything on

    # --- life ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _Gathering(transport, self.loop)))
        self._metrics.connection_opened("http")
        self._principal = certificate_principal(transport, self._principal_rules)
        address = str((self.client or ("?",))[0])
        if len(self.connections) > 2 * self._connections_max or not self._admit(address):
            transport.abort()
            return
        self._address = address
        self._expect_whole_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._metrics.connection_closed("http")
        if self._address is not None:
            self._forget(self._address)
        self._note_arrival()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait for a peer that does not read
        else:
            super().timeout_keep_alive_handler()

    # --- arrival ---------------------------------------------------------------------------------

    def _expect_whole_request(self) -> None:
        if self._arrival is None:
            self._arrival = self.loop.call_later(ARRIVAL_SECONDS_MAX, self._too_slow)

    def _note_arrival(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _too_slow(self) -> None:
        _log.info("slow connection closed", peer=self.client, seconds=ARRIVAL_SECONDS_MAX)
        self._leave()
        self.transport.abort()

    def eof_received(self) -> None:
        """Whoever says no more has gone: a closed socket and a half-closed one look the same."""
        self._leave()

    def _leave(self) -> None:
        """Nobody reads what is still to be answered; what waits for this connection need not."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._unseen_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse_upgrade()
        except httptools.HttpParserError as error:
            self._refuse(error)
        else:
            if self._unseen_bytes > HEAD_BYTES_MAX:
                self._answer_and_close(431, "head_too_large", f"more than {HEAD_BYTES_MAX} bytes")
        if self._is_arriving:  # most requests come whole, and need no timer
            self._expect_whole_request()

    def _refuse_upgrade(self) -> None:
        """Answer over HTTP/1.1; the parser reads no further on this connection."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None:
            cycle.keep_alive = False

    def _refuse(self, error: httptools.HttpParserError) -> None:
        if isinstance(error.__context__, _TooLarge):
            self._answer_and_close(431, "head_too_large", f"more than {HEAD_BYTES_MAX} bytes")
        else:
            self._answer_and_close(400, "invalid_http", "this is no HTTP/1.1 request")

    def _answer_and_close(self, status: int, code: str, message: str) -> None:
        """Say what is wrong, unless an earlier request is still to be answered first."""
        _log.debug("bad request", peer=self.client, code=code)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            if not cycle.more_body:  # its request came whole: answer that, then close
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            has_begun = cycle.response_started
        else:
            has_begun = False
        if not has_begun:
            body = (
                f'{{"error":{{"code":"{code}","message":"{message}","details":{{}}}}}}\n'.encode()
            )
            self.transport.write(
                b"HTTP/1.1 %d Bad Request\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\nconnection: close\r\n\r\n%s" % (status, len(body), body)
            )
        self._leave()
        self.transport.close()

    # --- parser callbacks ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._head_bytes = self._unseen_bytes = 0
        self._note_arrival()  # from now on it is this request that must arrive in time
        self._is_arriving = True
        super().on_message_begin()
        if self._principal is not None:
            self.scope["extensions"] = {PRINCIPAL_KEY: self._principal}  # type: ignore[dict-item]

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        self._unseen_bytes = 0
        self._head_bytes += size + 4
        if self._head_bytes > HEAD_BYTES_MAX:
            raise _TooLarge

    def on_body(self, body: bytes) -> None:
        self._unseen_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._note_arrival()
        self._is_arriving = False
        self._unseen_bytes = 0
        super().on_message_complete()


def server_config(app: Any, idle_seconds: int) -> Config:
    """What uvicorn's protocol needs to know; its own server, logging and signals stay out."""
    config = Config(
        app,
        http=HttpConnection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        timeout_keep_alive=idle_seconds,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )
    config.load()
    return config
