"""What stands between Spark and the broker: everything passes, until a fault strikes.

Both listen on ports of their own that stay the same while brokers behind them come and go.
"""

import contextlib
import http.client
import http.server
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from goqueue.model.config import Address
from tests.spark.crashes.faults import Faults

WAIT_S = 60.0
REQUEST_POINTS = {0: "write", 1: "read", 2: "look"}  # by the API key
HOP_BY_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length")


# --- HTTP ---------------------------------------------------------------------------------------


class HttpProxy:
    """Knows attempts and decisions by their paths."""

    def __init__(self, faults: Faults, broker: Callable[[], Address], seed: int) -> None:
        handler = type("Handler", (_Handler,), {"faults": faults, "broker": staticmethod(broker)})
        handler.chance = random.Random(seed)  # type: ignore[attr-defined]
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator["HttpProxy"]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    faults: Faults
    broker: Callable[[], Address]
    chance: random.Random

    def do_GET(self) -> None:
        self._pass_on()

    def do_POST(self) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        self.close_connection = True
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        decides = self.path.endswith("/decide")
        if self.path.endswith("/attempts") and self.faults.passed("attempt"):
            return
        if decides and self.faults.passed("decision:before"):
            return
        broker = self.broker()
        connection = http.client.HTTPConnection(broker.host, broker.port, timeout=WAIT_S)
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException),
        ):
            headers = {
                name: value for name, value in self.headers.items() if name.lower() != "host"
            }
            connection.request(self.command, self.path, body, headers)
            if decides and self._is_struck_in_the_middle():
                return
            answer = connection.getresponse()
            content = answer.read()
            if decides and self.faults.passed("decision:after"):
                return
            self._answer(answer, content)

    def _is_struck_in_the_middle(self) -> bool:
        """A moment after the request was handed over: before, while or after it is carried out."""
        threading.Event().wait(self.chance.choice((0, 0.001, 0.002, 0.005, 0.02)))
        return self.faults.passed("decision:middle")

    def _answer(self, answer: http.client.HTTPResponse, content: bytes) -> None:
        self.send_response(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


# --- Kafka --------------------------------------------------------------------------------------


class KafkaProxy:
    """Knows requests by their API key.  The broker must advertise this address."""

    def __init__(self, faults: Faults, broker: Callable[[], Address]) -> None:
        self._faults = faults
        self._broker = broker
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator["KafkaProxy"]:
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Requests by frame; answers as they come, by a thread of their own."""
        with client, contextlib.suppress(OSError), _connected(self._broker()) as broker:
            threading.Thread(target=_pump, args=(broker, client), daemon=True).start()
            while (frame := _frame(client)) is not None:
                (api_key,) = struct.unpack_from(">h", frame, 4)
                point = REQUEST_POINTS.get(api_key)
                if point is not None and self._faults.passed(point):
                    return
                broker.sendall(frame)


def _connected(address: Address) -> socket.socket:
    return socket.create_connection((address.host, address.port))


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _frame(source: socket.socket) -> bytes | None:
    """Size and all; None when the other side is gone."""
    head = _exactly(source, 4)
    if head is None:
        return None
    body = _exactly(source, struct.unpack(">i", head)[0])
    return None if body is None else head + body


def _exactly(source: socket.socket, size: int) -> bytes | None:
    parts = []
    while size:
        part = source.recv(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
