"""Brokers that say what a test wants them to say, on real sockets."""

import socket
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from goqueue.client.kafka import Node
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey, has_flexible_response_header
from goqueue.wire.frames import RequestHeader, encode_frame, parse_header
from goqueue.wire.messages import build, encode_response

CLOSE = object()
"""Instead of an answer: close the connection."""
SILENCE = object()
"""Instead of an answer: none, and the connection stays."""

Answer = Callable[["FakeKafka", ApiKey], object]


class FakeKafka:
    """Answers with bytes, or an object of the newest shape; one thread for each connection."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.node = Node(*self._listener.getsockname()[:2])
        self.asked: list[ApiKey] = []
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> "FakeKafka":
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            each.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed: the test is over
                return
            self._sockets.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rwb") as stream:
                while head := stream.read(4):
                    frame = stream.read(struct.unpack(">i", head)[0])
                    if not self._reply(stream, parse_header(memoryview(frame))):
                        connection.shutdown(socket.SHUT_RDWR)
                        return
        except (OSError, ValueError):  # closed by either side
            return

    def _reply(self, stream: Any, header: RequestHeader) -> bool:
        api = ApiKey(header.api_key)
        self.asked.append(api)
        answer = self._answer(self, api)
        if answer is CLOSE:
            return False
        if answer is SILENCE:
            return True
        if isinstance(answer, bytes):
            stream.write(answer)
        else:
            body = encode_response(api, header.api_version, answer)
            flexible = has_flexible_response_header(api, header.api_version)
            stream.write(b"".join(encode_frame(header.correlation_id, flexible, [body])))
        stream.flush()
        return True


def described(*leaders: Node) -> MetadataResponse:
    """A topic `t` whose partitions are led by these."""
    return build(
        MetadataResponse,
        brokers=tuple(
            build(MetadataResponseBroker, node_id=index, host=node.host, port=node.port)
            for index, node in enumerate(leaders)
        ),
        topics=(
            build(
                MetadataResponseTopic,
                name="t",
                partitions=tuple(
                    build(MetadataResponsePartition, partition_index=index, leader_id=index)
                    for index in range(len(leaders))
                ),
            ),
        ),
    )


def offsets(*found: tuple[int, int], code: ErrorCode = ErrorCode.none) -> ListOffsetsResponse:
    partitions = tuple(
        build(ListOffsetsPartitionResponse, partition_index=index, offset=offset, error_code=code)
        for index, offset in found
    )
    topic = build(ListOffsetsTopicResponse, name="t", partitions=partitions)
    return build(ListOffsetsResponse, topics=(topic,))


WHERE = TopicPartition(TopicName("t"), 0)
