"""What is written comes back: same bytes, same order, whoever wrote and whoever reads."""

import random

import pytest

from tests.conformance.clients import CODECS, Aiokafka, Client, Confluent, KafkaPython, Message
from tests.conformance.conftest import CLIENTS, MakeTopic, client_of
from tests.conformance.server import Server

PYTHON_CLIENTS: list[Client] = [Confluent(), KafkaPython(), Aiokafka()]
TEN_MEGABYTES = 10 * 1024 * 1024

# Lines of text, which kcat can write too.
LINES = [Message(b"key-%d" % n, b"value-%d" % n * (n % 7 + 1)) for n in range(200)]

ODD_ONES = [
    Message(b"key", b"value"),
    Message(None, b"no key"),
    Message(b"no value", None),
    Message(b"", b""),
    Message(b"empty value", b""),
    Message(bytes(range(256)), bytes(reversed(range(256)))),
    Message("schlüssel".encode(), "größe 漢字 🙂".encode()),
    Message(b"headers", b"x", (("a", b"1"), ("b", bytes(range(256))), ("a", b"again"))),
    Message(b"odd headers", b"x", (("empty", b""), ("ключ", b"v"))),
    Message(b"long", b"0123456789" * 10_000),
]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", CLIENTS)
def test_every_client_reads_what_any_client_wrote(
    writer: str, codec: str, server: Server, topic: str, request: pytest.FixtureRequest
):
    client_of(request, writer).write(server.address, topic, LINES, partition=0, codec=codec)
    for reader in CLIENTS:
        client = client_of(request, reader)
        read = client.read(server.address, topic, len(LINES), partition=0, offset=0)
        assert [each.message for each in read] == LINES, reader
        assert [each.offset for each in read] == list(range(len(LINES))), reader


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", PYTHON_CLIENTS, ids=lambda each: type(each).__name__)
def test_odd_messages_come_back_as_they_were(
    writer: Client, codec: str, server: Server, topic: str
):
    writer.write(server.address, topic, ODD_ONES, partition=0, codec=codec)
    for reader in PYTHON_CLIENTS:
        read = reader.read(server.address, topic, len(ODD_ONES), partition=0, offset=0)
        assert [each.message for each in read] == ODD_ONES, type(reader).__name__


@pytest.mark.parametrize(
    "message",
    [Message(None, None), Message(b"k", b"v", (("null", None), ("more", b"x")))],
    ids=["no-key-no-value", "null-header"],
)
def test_nulls_that_only_librdkafka_sends(message: Message, server: Server, topic: str):
    Confluent().write(server.address, topic, [message])
    for reader in PYTHON_CLIENTS:
        (read,) = reader.read(server.address, topic, 1, partition=0, offset=0)
        assert read.message == message, type(reader).__name__


def test_kcat_writes_and_reads_headers_and_nulls(server: Server, topic: str, request):
    kcat = client_of(request, "kcat")
    headers = (("trace", b"abc"), ("empty", b""))
    written = [
        Message(b"k", b"v", headers),
        Message(None, b"v", headers),
        Message(b"k", None, headers),
    ]
    kcat.write(server.address, topic, written, partition=0, codec="none")
    for reader in (kcat, *PYTHON_CLIENTS):
        read = reader.read(server.address, topic, 3, partition=0, offset=0)
        assert [each.message for each in read] == written, type(reader).__name__


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("writer", PYTHON_CLIENTS, ids=lambda each: type(each).__name__)
def test_a_message_of_ten_megabytes(
    writer: Client, codec: str, server: Server, make_topic: MakeTopic
):
    topic = make_topic(max_message_bytes=16 * 1024 * 1024)
    written = [
        Message(b"small", b"before"),
        Message(b"large", random.Random(7).randbytes(TEN_MEGABYTES)),
        Message(b"small", b"after"),
    ]
    writer.write(server.address, topic, written, partition=0, codec=codec)
    for reader in PYTHON_CLIENTS:
        read = reader.read(server.address, topic, 3, partition=0, offset=0)
        assert [each.message for each in read] == written, type(reader).__name__
