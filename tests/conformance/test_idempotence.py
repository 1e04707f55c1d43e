"""The same batch sent twice over the wire, as a client does that missed the answer."""

import io
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.produce.v9.request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kio.schema.produce.v9.response import ProduceResponse
from kio.serial import entity_reader, entity_writer

from goqueue.model import batch as batches
from goqueue.model.record import Record
from goqueue.wire.messages import build, duration
from tests.conformance.server import Server
from tests.conformance.transactional_clients import READERS

VERSION = 9


class Wire:
    """One connection that produces by hand."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._socket = socket.create_connection(server.host_and_port, timeout=10)

    def close(self) -> None:
        self._socket.close()

    def lose_connection(self) -> None:
        self._socket.close()
        self._socket = socket.create_connection(self._server.host_and_port, timeout=10)

    def produce(self, topic: str, data: bytes, *, answered: bool = True) -> Any:
        partition = build(PartitionProduceData, index=0, records=data)
        topics = (build(TopicProduceData, name=topic, partition_data=(partition,)),)
        request = build(ProduceRequest, acks=-1, timeout=duration(10_000), topic_data=topics)
        body = io.BytesIO()
        entity_writer(ProduceRequest)(body, request)
        header = struct.pack(">hhih", 0, VERSION, 1, 4) + b"test" + b"\x00"
        frame = header + body.getvalue()
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        return self._answer() if answered else None

    def _answer(self) -> Any:
        (size,) = struct.unpack(">i", self._exactly(4))
        answer = self._exactly(size)[5:]  # correlation id, and no tagged fields
        response, _ = entity_reader(ProduceResponse)(answer, 0)
        return response.responses[0].partition_responses[0]

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the server closed the connection"
            data += more
        return data


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    connected = Wire(server)
    yield connected
    connected.close()


def batch(sequence: int, value: bytes, producer_id: int = 1_000_000, epoch: int = 0) -> bytes:
    records = [Record(0, 1_750_000_000_000, None, value)]
    return bytes(batches.encode(records, producer=(producer_id, epoch, sequence)))


def test_a_batch_that_was_sent_twice_is_there_once(wire, server, topic):
    first = wire.produce(topic, batch(0, b"one"))
    again = wire.produce(topic, batch(0, b"one"))
    assert (first.error_code.name, again.error_code.name) == ("none", "none")
    assert again.base_offset == first.base_offset == 0
    assert wire.produce(topic, batch(1, b"two")).base_offset == 1
    assert READERS["confluent"](server.address, topic, 1, "read_committed") == [b"one", b"two"]


def test_a_batch_whose_answer_was_lost_is_there_once(wire, server, topic):
    wire.produce(topic, batch(0, b"one"))
    wire.produce(topic, batch(1, b"two"), answered=False)
    wire.lose_connection()
    assert wire.produce(topic, batch(1, b"two")).base_offset == 1
    assert READERS["confluent"](server.address, topic, 1, "read_committed") == [b"one", b"two"]


def test_gaps_and_zombies_are_refused(wire, topic):
    wire.produce(topic, batch(0, b"one", epoch=1))
    gap = wire.produce(topic, batch(2, b"three", epoch=1))
    assert gap.error_code.name == "out_of_order_sequence_number"
    zombie = wire.produce(topic, batch(1, b"two", epoch=0))
    assert zombie.error_code.name == "invalid_producer_epoch"


@pytest.mark.parametrize(
    "producer",
    [
        pytest.param((-2, 0, 0), id="negative id"),
        pytest.param((5, -1, 0), id="no epoch"),
        pytest.param((5, 0, -1), id="no sequence"),
        pytest.param((1 << 62, 0, 0), id="an id of an Idempotency-Key"),
    ],
)
def test_half_of_a_producer_is_refused(wire, topic, producer):
    producer_id, epoch, sequence = producer
    refused = wire.produce(topic, batch(sequence, b"odd", producer_id, epoch))
    assert refused.error_code.name == "invalid_record"


def test_a_producer_that_is_new_to_a_partition_may_begin_with_any_sequence(wire, topic):
    """As in Apache Kafka: retention may have taken all that was known of it."""
    assert wire.produce(topic, batch(17, b"first")).error_code.name == "none"
    assert wire.produce(topic, batch(18, b"next")).error_code.name == "none"
    gap = wire.produce(topic, batch(20, b"later"))
    assert gap.error_code.name == "out_of_order_sequence_number"


def test_a_repeat_is_known_after_the_server_was_killed(own_server):
    wire = Wire(own_server)
    first = wire.produce("orders", batch(0, b"one"))
    assert first.error_code.name == "none"
    own_server.kill()
    own_server.start()
    wire.lose_connection()
    again = wire.produce("orders", batch(0, b"one"))
    assert (again.error_code.name, again.base_offset) == ("none", first.base_offset)
    wire.close()
    found = READERS["confluent"](own_server.address, "orders", 1, "read_committed")
    assert found == [b"one"]
