"""Four clients behind one face: write messages to a partition, read them back.

Every call has an end: what does not come in time fails the test that waits for it.
"""

import asyncio
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka

Header = tuple[str, bytes | None]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
WAIT_S: Final = 30.0
MESSAGE_BYTES_MAX: Final = 32 * 1024 * 1024


class Message(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int = 0  # 0: as the client likes


class Read(NamedTuple):
    """A message as it was read, with its place."""

    offset: int
    timestamp: int
    message: Message  # with a timestamp of 0, so that it compares to what was written


class Client(Protocol):
    def write(
        self, address: str, topic: str, messages: Sequence[Message], *, partition: int, codec: str
    ) -> None: ...

    def read(
        self, address: str, topic: str, count: int, *, partition: int, offset: int
    ) -> list[Read]: ...


class Confluent:
    """confluent-kafka, that is librdkafka."""

    def write(
        self,
        address: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        **settings: Any,
    ) -> None:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "compression.type": codec,
                "message.max.bytes": MESSAGE_BYTES_MAX,
                "linger.ms": 20,
                **settings,
            }
        )
        errors: list[Any] = []
        for message in messages:
            producer.produce(
                topic,
                key=message.key,
                value=message.value,
                headers=list(message.headers),
                timestamp=message.timestamp,
                partition=partition,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(WAIT_S) == 0
        assert errors == [None] * len(messages)

    def read(
        self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Read]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
                "check.crcs": True,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, offset)])
            return _collected(count, lambda: _confluent_poll(consumer, count))
        finally:
            consumer.close()


def _confluent_poll(consumer: Any, count: int) -> list[Read]:
    found = []
    for each in consumer.consume(count, timeout=1.0):
        assert each.error() is None, each.error()
        message = Message(each.key(), each.value(), tuple(each.headers() or ()))
        found.append(Read(each.offset(), each.timestamp()[1], message))
    return found


class KafkaPython:
    def write(
        self,
        address: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        **settings: Any,
    ) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            max_request_size=MESSAGE_BYTES_MAX,
            linger_ms=20,
            **settings,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp or None,
                )
                for message in messages
            ]
            for future in futures:
                future.get(timeout=WAIT_S)
        finally:
            producer.close(timeout=WAIT_S)

    def read(
        self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Read]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=address,
            auto_offset_reset="none",
            fetch_max_bytes=MESSAGE_BYTES_MAX,
            max_partition_fetch_bytes=MESSAGE_BYTES_MAX,
        )
        try:
            place = kafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            return _collected(count, lambda: _records(consumer.poll(timeout_ms=1000)))
        finally:
            consumer.close(timeout_ms=10_000)


class Aiokafka:
    def write(
        self,
        address: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        **settings: Any,
    ) -> None:
        asyncio.run(self._write(address, topic, messages, partition, codec, settings))

    async def _write(
        self,
        address: str,
        topic: str,
        messages: Sequence[Message],
        partition: int,
        codec: str,
        settings: dict[str, Any],
    ) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=None if codec == "none" else codec,
            max_request_size=MESSAGE_BYTES_MAX,
            linger_ms=20,
            **settings,
        )
        async with asyncio.timeout(WAIT_S), producer:
            sent = [
                await producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp or None,
                )
                for message in messages
            ]
            await asyncio.gather(*sent)

    def read(
        self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Read]:
        return asyncio.run(self._read(address, topic, count, partition, offset))

    async def _read(
        self, address: str, topic: str, count: int, partition: int, offset: int
    ) -> list[Read]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=address,
            auto_offset_reset="none",
            fetch_max_bytes=MESSAGE_BYTES_MAX,
            max_partition_fetch_bytes=MESSAGE_BYTES_MAX,
        )
        place = aiokafka.TopicPartition(topic, partition)
        found: list[Read] = []
        async with asyncio.timeout(WAIT_S):
            await consumer.start()
            try:
                consumer.assign([place])
                consumer.seek(place, offset)
                while len(found) < count:
                    found += _records(await consumer.getmany(timeout_ms=1000))
            finally:
                await consumer.stop()
        return found


def _records(polled: dict[Any, list[Any]]) -> list[Read]:
    """As kafka-python and aiokafka hand them out."""
    return [
        Read(
            each.offset,
            each.timestamp,
            Message(
                None if each.key is None else bytes(each.key),
                None if each.value is None else bytes(each.value),
                tuple((name, value) for name, value in each.headers),
            ),
        )
        for records in polled.values()
        for each in records
    ]


class Kcat:
    """The command.  It takes lines, so keys and values here are text without tabs and newlines."""

    KEY_END: Final = "\t"

    def __init__(self, path: str) -> None:
        self._path = path

    def write(
        self,
        address: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        **settings: Any,
    ) -> None:
        """All messages of one call have the same headers; -Z makes what is empty null."""
        headers = messages[0].headers
        assert all(message.headers == headers for message in messages)
        options = ["-z", codec, "-Z", "-K", self.KEY_END]
        for name, value in headers:
            options += ["-H", name if value is None else f"{name}={value.decode()}"]
        for name, value in {"message.max.bytes": MESSAGE_BYTES_MAX, **settings}.items():
            options += ["-X", f"{name}={value}"]
        lines = b"".join(
            (message.key or b"") + self.KEY_END.encode() + (message.value or b"") + b"\n"
            for message in messages
        )
        where = ["-b", address, "-t", topic, "-p", str(partition)]
        self._run("-P", *where, *options, input=lines)

    def read(
        self, address: str, topic: str, count: int, *, partition: int = 0, offset: int = 0
    ) -> list[Read]:
        where = ["-b", address, "-t", topic, "-p", str(partition), "-o", str(offset)]
        options = ["-q", "-c", str(count), "-X", f"fetch.message.max.bytes={MESSAGE_BYTES_MAX}"]
        out = self._run("-C", *where, *options, "-f", "%o %T %K %S %h\\n%k%s\\n")
        return list(_kcat_messages(out))

    def _run(self, *arguments: str, input: bytes = b"") -> bytes:
        done = subprocess.run(
            [self._path, "-E", *arguments],
            input=input,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout


def _kcat_messages(out: bytes) -> list[Read]:
    found, at = [], 0
    while at < len(out):
        end = out.index(b"\n", at)
        offset, timestamp, key_size, value_size, *headers = out[at:end].split(b" ", 4)
        at = end + 1
        key, at = _sized(out, at, int(key_size))
        value, at = _sized(out, at, int(value_size))
        message = Message(key, value, _kcat_headers(headers[0] if headers else b""))
        found.append(Read(int(offset), int(timestamp), message))
        at += 1
    return found


def _sized(out: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    return (None, at) if size < 0 else (out[at : at + size], at + size)


def _kcat_headers(text: bytes) -> tuple[Header, ...]:
    pairs = (pair.partition(b"=") for pair in text.split(b",") if pair)
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)


def _collected(count: int, poll: Callable[[], list[Read]]) -> list[Read]:
    """Poll until there are `count`."""
    found: list[Read] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages in {WAIT_S} s"
        found += poll()
    return found
