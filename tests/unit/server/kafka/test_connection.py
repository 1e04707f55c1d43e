"""A connection as its peer sees it: over a real socket, request by request, byte by byte."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData

from goqueue.broker import Broker
from goqueue.model import batch as batches
from goqueue.model.config import Config, KafkaConfig
from goqueue.model.ids import Offset
from goqueue.model.record import Record
from goqueue.runtime import real_environment
from goqueue.server.kafka import frame_listener as listeners
from goqueue.server.kafka.listener import KafkaListener
from goqueue.server.metrics import Metrics
from goqueue.wire.apis import ApiKey, is_flexible
from goqueue.wire.frame_buffer import OWN_BYTES
from goqueue.wire.messages import build, duration, response_class
from tests.unit.wire.kio_side import kio_decode, kio_encode

WAIT_S = 10.0

Connect = Callable[[], Awaitable["Peer"]]
Served = tuple[Broker, Connect]


class Peer:
    """Speaks in whole requests, or in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def hang_up(self) -> None:
        self._writer.write_eof()

    async def reply(self) -> tuple[int, bytes]:
        """The next reply's correlation id and what follows it."""
        async with asyncio.timeout(WAIT_S):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            data = await self._reader.readexactly(size)
        return int.from_bytes(data[:4]), data[4:]

    async def rest(self) -> bytes:
        """All that comes until the connection ends."""
        async with asyncio.timeout(WAIT_S):
            try:
                return await self._reader.read()
            except ConnectionResetError:
                return b""

    @property
    def unsent_bytes(self) -> int:
        """That the socket has not taken."""
        return self._writer.transport.get_write_buffer_size()

    def abort(self) -> None:
        """Leave, whatever has not been sent."""
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


@contextlib.asynccontextmanager
async def listening(tmp_path: Path, **settings: Any) -> AsyncIterator[Served]:
    config = Config(data_dir=str(tmp_path), kafka=KafkaConfig(listen="127.0.0.1:0", **settings))
    environment = real_environment()
    async with Broker(environment, config).running() as broker, asyncio.TaskGroup() as tasks:
        listener = KafkaListener(broker, config.kafka, Metrics(broker))
        await listener.start(tasks)
        peers: list[Peer] = []

        async def connect() -> Peer:
            address = listener.address
            peers.append(Peer(*await asyncio.open_connection(address.host, address.port)))
            return peers[-1]

        yield broker, connect
        for peer in peers:
            await peer.close()
        await listener.stop(1.0)
    environment.disk.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with listening(tmp_path) as found:
        yield found


def frame(api: int, version: int, correlation_id: int, body: bytes) -> bytes:
    head = struct.pack(">hhihs", api, version, correlation_id, 1, b"c")
    if is_flexible(api, version):
        head += b"\x00"
    return struct.pack(">i", len(head) + len(body)) + head + body


def metadata(correlation_id: int, *topics: str) -> bytes:
    asked = tuple(build(MetadataRequestTopic, name=name) for name in topics)
    return frame(
        ApiKey.METADATA, 13, correlation_id, kio_encode(build(MetadataRequest, topics=asked))
    )


def produce(correlation_id: int, acks: int, value: bytes, records: bytes | None = None) -> bytes:
    batch = batches.encode([Record(0, 1, None, value)]) if records is None else records
    partition = build(PartitionProduceData, index=0, records=bytes(batch))
    topic = build(TopicProduceData, name="t", partition_data=(partition,))
    request = build(ProduceRequest, acks=acks, timeout=duration(1000), topic_data=(topic,))
    return frame(ApiKey.PRODUCE, 9, correlation_id, kio_encode(request))


def fetch(correlation_id: int, offset: int, wait_ms: int) -> bytes:
    partition = build(FetchPartition, partition=0, fetch_offset=offset, partition_max_bytes=10**6)
    topic = build(FetchTopic, topic="t", partitions=(partition,))
    request = build(FetchRequest, max_wait=duration(wait_ms), min_bytes=1, topics=(topic,))
    return frame(ApiKey.FETCH, 12, correlation_id, kio_encode(request))


def produced(body: bytes) -> tuple[ErrorCode, int]:
    """The error code and base offset of the answer to `produce`."""
    answer = kio_decode(response_class(ApiKey.PRODUCE, 9), body[1:])
    partition = answer.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


async def values_of(broker: Broker) -> list[bytes | None]:
    partition = await broker.partition("t", 0)
    await partition.flush_visible()
    chunk = await partition.read(Offset(0), 10**6, partition.log.end_offset)
    return [record.value for record in batches.decode_all(chunk.data)]


# --- order ------------------------------------------------------------------------------------


async def test_pipelined_requests_are_answered_in_their_order(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    peer = await connect()
    for n in range(0, 300, 3):
        peer.send(produce(n, -1, b"%d" % n) + metadata(n + 1) + produce(n + 2, 1, b"x"))
    assert [(await peer.reply())[0] for _ in range(300)] == list(range(300))


async def test_a_request_may_come_byte_by_byte(served: Served):
    _, connect = served
    peer = await connect()
    for byte in metadata(7):
        peer.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await peer.reply())[0] == 7


async def test_acks_0_gets_no_answer(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    peer = await connect()
    peer.send(produce(1, 0, b"a") + produce(2, 0, b"b") + metadata(3))
    assert (await peer.reply())[0] == 3
    assert await values_of(broker) == [b"a", b"b"]


async def test_a_waiting_fetch_is_answered_by_the_next_append(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    reader, writer = await connect(), await connect()
    reader.send(fetch(1, 0, wait_ms=60_000))
    writer.send(produce(2, -1, b"news"))
    assert (await writer.reply())[0] == 2
    correlation_id, body = await reader.reply()
    assert correlation_id == 1
    assert b"news" in body


async def test_a_fetch_that_comes_between_write_and_flush_is_answered_after_the_flush(
    served: Served,
):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    broker.append(await broker.partition("t", 0), batches.encode([Record(0, 1, None, b"news")]))
    reader = await connect()
    reader.send(fetch(1, 0, wait_ms=300_000))
    assert b"news" in (await reader.reply())[1]


# --- the end ----------------------------------------------------------------------------------


async def test_what_was_sent_before_hanging_up_is_done(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    peer = await connect()
    peer.send(b"".join(produce(n, 0, b"%d" % n) for n in range(100)))
    peer.hang_up()
    assert await peer.rest() == b""
    assert await values_of(broker) == [b"%d" % n for n in range(100)]


async def test_who_hangs_up_and_listens_is_still_answered(served: Served):
    _, connect = served
    peer = await connect()
    peer.send(metadata(1) + metadata(2))
    peer.hang_up()
    assert [(await peer.reply())[0] for _ in range(2)] == [1, 2]
    assert await peer.rest() == b""


@pytest.mark.parametrize("before", [b"", metadata(1)], ids=["at-once", "later"])
async def test_nobody_waits_for_a_reader_that_is_gone(served: Served, before: bytes):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    peer = await connect()
    peer.send(before + fetch(2, 0, wait_ms=300_000))
    peer.hang_up()
    await peer.rest()


# --- nonsense ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32),  # TLS says hello
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 2) + b"\x00\x03",  # no room for a header
        frame(999, 0, 1, b""),
        frame(ApiKey.METADATA, 99, 1, b""),
        frame(ApiKey.METADATA, -1, 1, b""),
        frame(ApiKey.PRODUCE, 2, 1, b""),
        frame(ApiKey.METADATA, 13, 1, b"\xff\xff\xff\xff\x0f"),
        frame(ApiKey.METADATA, 1, 1, b"\x7f\xff\xff\xff"),
        frame(ApiKey.PRODUCE, 9, 1, b"\xff"),
        frame(ApiKey.FETCH, 12, 1, b"\xff"),
    ],
    ids=lambda nonsense: nonsense[:12].hex(),
)
async def test_nonsense_costs_one_connection_and_nothing_before_it(served: Served, nonsense: bytes):
    _, connect = served
    peer, neighbour = await connect(), await connect()
    peer.send(metadata(1) + nonsense + bytes(64))
    assert (await peer.reply())[0] == 1
    assert await peer.rest() == b""
    neighbour.send(metadata(5))
    assert (await neighbour.reply())[0] == 5


async def test_whoever_speaks_http_is_told_that_this_is_the_kafka_port(served: Served):
    _, connect = served
    peer = await connect()
    peer.send(b"GET /topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = await peer.rest()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    head, body = answer.split(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    assert body == b"This is GoQueue's Kafka port; there is no HTTP port\n"


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"POST /topics HTTP/1.1\r\n\r\n", "an HTTP request: this is the Kafka port"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "a TLS handshake"),
        (b"GARBAGE", "a request of 1195463234 bytes"),
    ],
)
async def test_the_log_names_the_protocol_that_is_not_kafkas(
    served: Served, start: bytes, words: str
):
    _, connect = served
    peer = await connect()
    with structlog.testing.capture_logs() as lines:
        peer.send(start)
        await peer.rest()
    (line,) = lines
    assert line["event"] == "closing a connection"
    assert words in line["reason"]


async def test_an_unknown_version_of_api_versions_is_told_the_known_ones(served: Served):
    _, connect = served
    peer = await connect()
    peer.send(frame(ApiKey.API_VERSIONS, 99, 1, b"") + metadata(2))
    correlation_id, body = await peer.reply()
    answer = kio_decode(response_class(ApiKey.API_VERSIONS, 0), body)
    assert correlation_id == 1
    assert answer.error_code is ErrorCode.unsupported_version
    assert {each.api_key for each in answer.api_keys} >= {ApiKey.PRODUCE, ApiKey.FETCH}
    assert (await peer.reply())[0] == 2


def _damaged(place: int, value: int) -> bytes:
    batch = bytearray(batches.encode([Record(0, 1, None, b"value")]))
    batch[place] ^= value
    return bytes(batch)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (_damaged(-1, 1), ErrorCode.corrupt_message),
        (_damaged(17, 1), ErrorCode.corrupt_message),  # the checksum itself
        (_damaged(16, 3), ErrorCode.unsupported_for_message_format),  # magic 1
        (_damaged(16, 7), ErrorCode.unsupported_for_message_format),  # magic 5
        (_damaged(11, 1), ErrorCode.corrupt_message),  # the batch's length
        (b"short", ErrorCode.corrupt_message),
        (b"", ErrorCode.invalid_record),
    ],
)
async def test_a_bad_batch_is_refused_and_the_connection_goes_on(
    served: Served, records: bytes, code: ErrorCode
):
    broker, connect = served
    await broker.create_topic("t", partitions=1)
    peer = await connect()
    peer.send(produce(1, -1, b"", records) + produce(2, -1, b"good"))
    assert produced((await peer.reply())[1])[0] is code
    assert produced((await peer.reply())[1]) == (ErrorCode.none, 0)
    assert await values_of(broker) == [b"good"]


async def test_a_refused_batch_names_the_records_at_fault(served: Served):
    broker, connect = served
    await broker.create_topic("t", partitions=1, settings={"cleanup.policy": "compact"})
    keys = [b"k" if number % 3 else None for number in range(7)]
    batch = batches.encode([Record(0, 1, key, b"v") for key in keys])
    peer = await connect()
    peer.send(produce(1, -1, b"", bytes(batch)))
    answer = kio_decode(response_class(ApiKey.PRODUCE, 9), (await peer.reply())[1][1:])
    partition = answer.responses[0].partition_responses[0]
    assert partition.error_code is ErrorCode.invalid_record
    assert [each.batch_index for each in partition.record_errors] == [0, 3, 6]
    assert {each.batch_index_error_message for each in partition.record_errors} == {
        "a compacted topic takes only records with a key"
    }
    assert "record 0 of the batch" in partition.error_message
    assert await values_of(broker) == []


# --- bounds -----------------------------------------------------------------------------------


async def test_a_request_over_the_limit_closes_the_connection(tmp_path: Path):
    async with listening(tmp_path, request_bytes_max=1000) as (_, connect):
        peer = await connect()
        peer.send(struct.pack(">i", 1001))
        assert await peer.rest() == b""


async def test_a_connection_too_many_is_closed_at_once(tmp_path: Path):
    async with listening(tmp_path, connections_max=2) as (_, connect):
        first, second = await connect(), await connect()
        for peer in (first, second):
            peer.send(metadata(1))
            await peer.reply()
        third = await connect()
        assert await third.rest() == b""
        first.send(metadata(2))
        assert (await first.reply())[0] == 2


@pytest.mark.parametrize("begun", [b"", b"\x00\x00\x00\x50half"], ids=["idle", "half-a-request"])
async def test_quiet_connections_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: bytes
):
    monkeypatch.setattr(listeners, "REAP_SECONDS", 0.02)
    async with listening(tmp_path, idle_ms=100, request_ms=100) as (_, connect):
        peer = await connect()
        peer.send(begun)
        assert await peer.rest() == b""


async def test_a_request_that_trickles_in_is_closed_however_busy_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listeners, "REAP_SECONDS", 0.02)
    async with listening(tmp_path, request_ms=100) as (_, connect), asyncio.timeout(WAIT_S):
        peer = await connect()
        peer.send(struct.pack(">i", 1_000_000))
        ended = asyncio.ensure_future(peer.rest())
        while not ended.done():
            peer.send(b"x")
            await asyncio.sleep(0.01)


async def test_parts_of_requests_are_bounded_over_all_connections(tmp_path: Path):
    limit = 3 * OWN_BYTES
    async with listening(tmp_path, request_bytes_max=limit, received_bytes_max=limit) as (
        _,
        connect,
    ):
        peers = [await connect() for _ in range(5)]
        for peer in peers:
            peer.send(struct.pack(">i", limit) + bytes(OWN_BYTES))
        ended = [asyncio.ensure_future(peer.rest()) for peer in peers]
        async with asyncio.timeout(WAIT_S):
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        newcomer = await connect()
        newcomer.send(metadata(7))
        assert (await newcomer.reply())[0] == 7
        for each in ended:
            each.cancel()


async def test_a_client_that_does_not_read_is_not_read_from(tmp_path: Path):
    """Its requests pile up on its own side; what the server keeps is bounded."""
    async with listening(tmp_path, pending_requests_max=4) as (broker, connect):
        await broker.create_topic("t", partitions=1)
        peer = await connect()
        count = 2000
        for n in range(count):
            peer.send(metadata(n, "t"))
        assert [(await peer.reply())[0] for _ in range(count)] == list(range(count))
