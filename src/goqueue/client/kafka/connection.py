"""One connection to one broker: requests go out, answers come back in the same order."""

import itertools
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final

from goqueue.client.errors import BadAnswer, NoAnswer, ServerUnreachable
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.results import Node
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import encode_request, split_response
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.primitives import Buffer

CONNECT_S_MAX: Final = 10.0
ANSWER_BYTES_MAX: Final = 1 << 30
BUFFERS_PER_WRITE: Final = 512  # a system's own limit of one sendmsg is 1024 or more
_SIZE: Final = struct.Struct(">i")


class Connection:
    """Any error of the socket or the protocol breaks it: its owner makes a new one."""

    def __init__(self, node: Node, client_id: str, deadline: Deadline) -> None:
        self.node = node
        self._client_id = client_id
        self._next_id = 0
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
        return NoAnswer(f"the connection to {self.node} broke: {error}")
