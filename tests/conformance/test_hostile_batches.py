"""Batches that a hostile producer gets acknowledged: they cost little, and stop nobody."""

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from goqueue.model.compression import Codec
from goqueue.model.record import Record
from goqueue.model.records import encode_records, write_varlong
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import response_class
from tests.conformance.http_groups import HttpGroupServer
from tests.conformance.http_queues import Queue, values
from tests.unit.broker.queues.test_partition_reader import assembled, with_deltas
from tests.unit.server.kafka.test_connection import produce
from tests.unit.wire.kio_side import kio_decode

Eventually = Callable[..., None]

TOPIC = "t"  # the one that `produce` names
RESIDENT_GROWTH_MAX = 128 * 1024 * 1024


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGroupServer]:
    server = HttpGroupServer(tmp_path_factory.mktemp("hostile"))
    server.start()
    server.post("/topics", 201, name=TOPIC, num_partitions=1)
    yield server
    assert server.is_running, server.log()
    server.stop()
    assert "Traceback" not in server.log(), server.log()


def send(server: HttpGroupServer, batch: bytearray) -> str:
    """The name of the error code in the answer."""
    host, port = server.address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as peer:
        peer.sendall(produce(1, -1, b"", bytes(batch)))
        with peer.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            body = answer.read(size)[5:]
    (topic,) = kio_decode(response_class(ApiKey.PRODUCE, 9), body).responses
    return str(topic.partition_responses[0].error_code.name)


def test_a_message_that_unfolds_to_millions_of_headers_is_one_dead_letter(
    server: HttpGroupServer, eventually: Eventually
):
    count = 4_000_000  # 8 MB of headers, half a gigabyte of objects, from 8 kB
    body = b"\x00\x00\x00\x01\x01" + write_varlong(count) + b"\x00\x01" * count
    bomb = assembled(write_varlong(len(body)) + body, 1, Codec.GZIP)
    queue = Queue(server, TOPIC, "workers")
    before = server.resident_bytes()
    assert send(server, bomb) == "none"
    queue.publish("after")
    assert values(queue.receive(wait="10s")) == ["after"]
    assert server.resident_bytes() - before < RESIDENT_GROWTH_MAX
    eventually(lambda: queue.letters()["messages"])
    (letter,) = queue.letters()["messages"]
    assert letter["reason"] == "unreadable"
    assert "offsets 0 to 0 cannot be decoded" in letter["error"]
    error = server.get(f"/topics/{TOPIC}/partitions/0/messages", 422)["error"]
    assert (error["code"], error["details"]) == ("unreadable_records", {"continue_at": 1})


def test_one_of_very_many_messages_is_read_alone(server: HttpGroupServer):
    batch = assembled(encode_records([Record(0, 1, None, None)] * 110_000), 110_000)
    before = server.resident_bytes()
    assert send(server, batch) == "none"
    page = server.get(f"/topics/{TOPIC}/partitions/0/messages", offset=109_000, limit=1)
    assert [message["offset"] for message in page["messages"]] == [109_000]
    assert server.resident_bytes() - before < RESIDENT_GROWTH_MAX // 4


def test_two_messages_never_have_one_receipt(server: HttpGroupServer):
    queue = Queue(server, TOPIC, "workers")
    assert send(server, with_deltas(0, 2, 4)) == "none"
    queue.publish("another's", "and more")
    messages = queue.receive(wait="10s")
    assert [(each["offset"], each["value"]) for each in messages] == [
        (0, "at 0"),
        (3, "another's"),
        (4, "and more"),
    ]
    queue.settle_all("ack", messages[:1])
    queue.settle_all("ack", messages[1:])


def test_a_count_that_cannot_be_is_refused(server: HttpGroupServer):
    for count in (2, 2_000):
        assert send(server, assembled(bytes(8), count)) == "invalid_record"
    assert send(server, assembled(bytes(8), 2**31 - 1)) == "message_too_large"
