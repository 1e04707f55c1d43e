"""Damaged requests on the Kafka port: the server stays up, small, and good to everybody else.

The frames and their order follow from one seed.  GOQUEUE_FUZZ_FRAMES says how many are sent.
"""

import asyncio
import os
import random
import struct
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from uuid import UUID

import confluent_kafka
import msgspec
import pytest
import uvloop
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.model.config import TopicsConfig
from tests.conformance.conftest import free_port_config
from tests.conformance.mutated_frames import CORRELATION_ID, Target, damaged_frames, wrong_size
from tests.conformance.server import Server

FRAMES = int(os.environ.get("GOQUEUE_FUZZ_FRAMES", "10000"))
FRAMES_FULL = 100_000
SEED = 20_260_101
CONNECTIONS = 24
PIPELINED = 20
PATIENCE_S = 1.0  # for a request that waits for something which never comes
RESIDENT_GROWTH_MAX = 48 * 1024 * 1024
ROUND_TRIP_S_MAX = 10.0


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[Server]:
    """Topics are made on demand only, and small: else it is the data that grows."""
    config = free_port_config(tmp_path)
    topics = TopicsConfig(auto_create=False, partitions=1, partitions_max=20)
    server = Server(msgspec.structs.replace(config, topics=topics)).start()
    yield server
    server.kill()


@pytest.mark.timeout(600)
def test_damaged_requests_harm_nobody_else(fuzzed: Server):
    run(fuzzed, FRAMES)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_damaged_requests_harm_nobody_else(fuzzed: Server):
    run(fuzzed, FRAMES_FULL)


def run(server: Server, count: int) -> None:
    target = make_topics(server)
    frames = damaged_frames(target, SEED)
    with Bystander(server, "undisturbed") as bystander:
        send(server, list(islice(frames, count // 4)))
        warm = server.resident_bytes()
        send(server, list(islice(frames, count - count // 4)))
        grown = server.resident_bytes() - warm
    assert server.is_running, server.log()
    assert "Traceback" not in server.log(), server.log()[-5000:]
    assert grown < RESIDENT_GROWTH_MAX, f"{grown / 2**20:.0f} MiB more than after a quarter"
    assert bystander.rounds > 20
    assert bystander.slowest_s < ROUND_TRIP_S_MAX
    server.stop()


def make_topics(server: Server) -> Target:
    admin = AdminClient(server.bootstrap)
    made = admin.create_topics([NewTopic(name, 1, 1) for name in ("fuzzed", "undisturbed")])
    for future in made.values():
        future.result(10)
    (topic,) = admin.describe_topics(confluent_kafka.TopicCollection(["fuzzed"])).values()
    found = topic.result(10).topic_id
    high, low = found.get_most_significant_bits(), found.get_least_significant_bits()
    return Target("fuzzed", UUID(bytes=struct.pack(">qq", high, low)))


# --- sending ----------------------------------------------------------------------------------


def send(server: Server, frames: list[bytes]) -> None:
    """Every frame at least once, from many connections at a time."""
    shares = [frames[n::CONNECTIONS] for n in range(CONNECTIONS)]

    async def all_of_them() -> None:
        async with asyncio.TaskGroup() as group:
            for number, share in enumerate(shares):
                group.create_task(Sender(server, share, number).run())

    uvloop.run(all_of_them())


class Sender:
    """Sends its frames in pipelines; where the server hangs up, it goes on behind that frame."""

    def __init__(self, server: Server, frames: list[bytes], number: int) -> None:
        self._address = server.host_and_port
        self._frames = frames
        self._chance = random.Random(number)
        self._next = 0

    async def run(self) -> None:
        while self._next < len(self._frames):
            if self._chance.random() < 0.05:
                frame = self._frames[self._next]
                await self._talk(wrong_size(frame, self._chance), expected=1, hangs_up=True)
                self._next += 1
            else:
                self._next += await self._send_pipeline()

    async def _send_pipeline(self) -> int:
        """How many frames are done: a frame without an answer ended or blocked the connection."""
        chunk = self._frames[self._next : self._next + PIPELINED]
        data = b"".join(
            struct.pack(">i", len(frame)) + _numbered(frame, number)
            for number, frame in enumerate(chunk)
        )
        last_answered = await self._talk(data, expected=len(chunk))
        return min(len(chunk), last_answered + 2)

    async def _talk(self, data: bytes, *, expected: int, hangs_up: bool = False) -> int:
        """The number of the last frame that was answered; -1 for none."""
        loop = asyncio.get_running_loop()
        talk = Talk(data, expected, hangs_up, loop.create_future())
        transport, _ = await loop.create_connection(lambda: talk, *self._address)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await talk.ended
        except TimeoutError:
            pass
        finally:
            transport.abort()
        return talk.last_answered


class Talk(asyncio.Protocol):
    """One connection: says everything at once, and listens until the last frame is answered."""

    def __init__(
        self, data: bytes, expected: int, hangs_up: bool, ended: "asyncio.Future[None]"
    ) -> None:
        self._data = data
        self._expected = expected
        self._hangs_up = hangs_up
        self._received = b""
        self.ended = ended
        self.last_answered = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(self._data)  # type: ignore[attr-defined]  # uvloop's are of another family
        if self._hangs_up:
            transport.write_eof()  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        received, at = self._received + data, 0
        while len(received) - at >= 8:
            size, number = struct.unpack_from(">ii", received, at)
            if len(received) - at < 4 + size:
                break
            self.last_answered = max(self.last_answered, number)
            at += 4 + size
        self._received = received[at:]
        if self.last_answered >= self._expected - 1 and not self._hangs_up:
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _numbered(frame: bytes, number: int) -> bytes:
    """With its number for a correlation id, if it still has one."""
    if len(frame) < CORRELATION_ID.stop:
        return frame
    return frame[: CORRELATION_ID.start] + number.to_bytes(4) + frame[CORRELATION_ID.stop :]


# --- somebody else ----------------------------------------------------------------------------


class Bystander:
    """Writes and reads all the while, and checks every message."""

    def __init__(self, server: Server, topic: str) -> None:
        self._producer = confluent_kafka.Producer({**server.bootstrap, "linger.ms": 0})
        self._consumer = confluent_kafka.Consumer({**server.bootstrap, "group.id": "bystander"})
        self._consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._problem: BaseException | None = None
        self.rounds = 0
        self.slowest_s = 0.0

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                started = time.monotonic()
                self._round()
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
        except BaseException as error:
            self._problem = error  # told by __exit__, where the test sees it

    def _round(self) -> None:
        expected = [b"%d-%d" % (self.rounds, n) for n in range(10)]
        for value in expected:
            self._producer.produce(self._topic, value, partition=0)
        assert self._producer.flush(ROUND_TRIP_S_MAX) == 0
        found = self._consumer.consume(len(expected), timeout=ROUND_TRIP_S_MAX)
        assert [each.error() for each in found] == [None] * len(expected)
        assert [each.value() for each in found] == expected
        assert found[0].offset() == 10 * self.rounds
        self.rounds += 1

    def __enter__(self) -> "Bystander":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._consumer.close()
        assert self._problem is None, self._problem
