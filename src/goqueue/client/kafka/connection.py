"""One connection to one broker: requests go out, answers come back in the same order."""

import itertools
import socket
import ssl
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from goqueue.client.errors import BadAnswer, BadLogin, NoAnswer, ServerUnreachable
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.login import NO_LOGIN, KafkaLogin
from goqueue.client.kafka.results import Node
from goqueue.client.kafka.sasl import log_in
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import decode_body, encode_body, encode_request, split_response
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.primitives import Buffer

CONNECT_S_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 1 << 30
BUFFERS_PER_WRITE: Final = 512  # a system's own limit of one sendmsg is 1024 or more
NEVER_ANSWERED: Final = "; does it demand TLS, or a login (security.protocol)?"
_SIZE: Final = struct.Struct(">i")


class Connection:
    """Any error of the socket or the protocol breaks it: its owner makes a new one."""

    def __init__(
        self, node: Node, client_id: str, deadline: Deadline, login: KafkaLogin = NO_LOGIN
    ) -> None:
        self.node = node
        self._client_id = client_id
        self._next_id = 0
        self._has_answered = False
        self._call: deque[tuple[ApiKey, int]] = deque()  # answers outstanding, oldest first
        timeout_s = min(CONNECT_S_MAX, deadline.remaining_s)
        try:
            self._socket = socket.create_connection(node, timeout=max(timeout_s, 0.001))
        except OSError as error:
            raise ServerUnreachable(
                f"no Kafka listener at {node}: is the server started,"
                f" and is this the address that `bootstrap.servers` should have? ({error})"
            ) from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._log_in(login, deadline)
        except BaseException:
            self._socket.close()
            raise

    def _log_in(self, login: KafkaLogin, deadline: Deadline) -> None:
        context = login.context()
        if context is not None:
            self._socket = self._encrypt(context)
        if login.mechanism is not None:
            log_in(login, lambda key, request: self.ask_for(key, request, deadline), str(self.node))

    def _encrypt(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        try:
            return context.wrap_socket(self._socket, server_hostname=self.node.host)
        except ssl.SSLCertVerificationError as error:
            raise BadLogin(
                f"{self.node} shows a certificate that is not trusted here: name the authority that"
                f" signed it (ssl.ca.location), and the server as its certificate does"
                f" ({error.verify_message or error})"
            ) from error
        except OSError as error:
            raise ServerUnreachable(
                f"no TLS with {self.node}: does this listener speak it? ({error})"
            ) from error

    def close(self) -> None:
        self._socket.close()

    @property
    def outstanding(self) -> int:
        """Answers still to come."""
        return len(self._call)

    def ask(self, api_key: ApiKey, body: Sequence[Buffer], deadline: Deadline) -> memoryview:
        """The body of the answer."""
        self.send(api_key, body, deadline)
        return self.receive(deadline)

    def ask_for(self, api_key: ApiKey, request: object, deadline: Deadline) -> Any:
        """The same with a request and a response as objects."""
        body = self.ask(api_key, encode_body(api_key, request), deadline)
        try:
            return decode_body(api_key, body)
        except MalformedRequest as error:
            raise BadAnswer(str(error)) from error

    def send(self, api_key: ApiKey, body: Sequence[Buffer], deadline: Deadline) -> None:
        self._next_id = (self._next_id + 1) & 0x7FFF_FFFF
        buffers = encode_request(api_key, self._next_id, self._client_id, body)
        self._call.append((api_key, self._next_id))
        try:
            self._write(buffers, deadline)
        except OSError as error:
            raise self._break(error, deadline) from error

    def receive(self, deadline: Deadline) -> memoryview:
        """The body of the oldest answer outstanding."""
        api_key, expected_id = self._call.popleft()
        try:
            (size,) = _SIZE.unpack(self._read(_SIZE.size, deadline))
            if not _SIZE.size <= size <= ANSWER_BYTES_MAX:
                raise BadAnswer(f"{self.node} is not a Kafka listener: an answer of {size} bytes")
            frame = self._read(size, deadline)
            self._has_answered = True
        except OSError as error:
            raise self._break(error, deadline) from error
        try:
            correlation_id, body = split_response(api_key, frame)
        except MalformedRequest as error:
            raise BadAnswer(f"{self.node}: {error}") from error
        if correlation_id != expected_id:
            raise BadAnswer(f"{self.node} answered {correlation_id} when asked {expected_id}")
        return body

    def _write(self, buffers: list[Buffer], deadline: Deadline) -> None:
        if isinstance(self._socket, ssl.SSLSocket):  # which has no `sendmsg`, and copies anyway
            self._socket.settimeout(max(deadline.remaining_s, 0.001))
            self._socket.sendall(b"".join(buffers))
            return
        pending = deque(memoryview(buffer) for buffer in buffers)
        while pending:
            self._socket.settimeout(max(deadline.remaining_s, 0.001))
            sent = self._socket.sendmsg(itertools.islice(pending, BUFFERS_PER_WRITE))
            while pending and sent >= len(pending[0]):
                sent -= len(pending.popleft())
            if sent:
                pending[0] = pending[0][sent:]

    def _read(self, size: int, deadline: Deadline) -> memoryview:
        buffer = memoryview(bytearray(size))
        at = 0
        while at < size:
            self._socket.settimeout(max(deadline.remaining_s, 0.001))
            received = self._socket.recv_into(buffer[at:])
            if received == 0:
                raise ConnectionResetError("closed by the other side")
            at += received
        return buffer

    def _break(self, error: OSError, deadline: Deadline) -> NoAnswer:
        if isinstance(error, TimeoutError):
            return NoAnswer(f"{self.node} did not answer within {deadline.seconds:g} s")
        hint = "" if self._has_answered else NEVER_ANSWERED
        return NoAnswer(f"the connection to {self.node} broke: {error}{hint}")
