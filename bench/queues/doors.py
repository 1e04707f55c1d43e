"""GoQueue's two doors for queues, as clients of our own use them.

    kafka   `KafkaClient.produce` and `QueueWorker`: whole batches, and ranges of offsets
    http    JSON over one connection each: a receipt for each message

All answers are durable.  A worker acks with or before its next `take`.
"""

import itertools
import socket
import time
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from bench.brokers import GoQueue
from bench.process import Failed
from goqueue.client.kafka import KafkaClient, QueueWorker, Received
from goqueue.model.batch import encode
from goqueue.model.ids import TopicPartition
from goqueue.model.record import Record

GROUP = "bench"
TOPIC = "bench"
WAIT_MS = 500
ANSWER_SECONDS_MAX = 60.0


class Publisher(Protocol):
    def publish(self, values: list[bytes]) -> None: ...
    def close(self) -> None: ...


class Worker(Protocol):
    def take(self, count: int) -> list[bytes]: ...
    def finish(self) -> None: ...
    def close(self) -> None: ...


class Door:
    """Makes publishers and workers for one running broker."""

    name = "?"

    def __init__(self, broker: GoQueue, partitions: int) -> None:
        self.broker = broker
        self.partitions = partitions

    def publisher(self) -> Publisher:
        raise NotImplementedError

    def worker(self) -> Worker:
        raise NotImplementedError


def prepare(broker: GoQueue, partitions: int, **settings: Any) -> None:
    """A topic, and a group that holds as much as it likes."""
    link = Link(broker.http)
    link.send("POST", "/topics", {"name": TOPIC, "num_partitions": partitions})
    configure(link, GROUP, **settings)
    link.close()


def configure(link: "Link", group: str, **settings: Any) -> None:
    held = {"max_in_flight_consumer": 1_000_000, "max_in_flight_group": 10_000_000}
    link.send("PUT", f"/groups/{group}/queue", {**held, **settings})


# --- Kafka ----------------------------------------------------------------------------------------


class KafkaDoor(Door):
    name = "kafka"

    def __init__(self, broker: GoQueue, partitions: int) -> None:
        super().__init__(broker, partitions)
        self._turns = itertools.cycle(range(partitions))

    def publisher(self) -> Publisher:
        return KafkaPublisher(self.broker.kafka, self._turns)

    def worker(self) -> Worker:
        return KafkaWorker(self.broker.kafka)


class KafkaPublisher:
    def __init__(self, address: str, turns: "itertools.cycle[int]") -> None:
        self._client = KafkaClient(address)
        self._turns = turns

    def publish(self, values: list[bytes]) -> None:
        self.publish_to(next(self._turns), values)

    def publish_to(self, partition: int, values: list[bytes]) -> None:
        now = time.time_ns() // 1_000_000
        batch = encode([Record(0, now, None, value) for value in values])
        self._client.produce({TopicPartition(TOPIC, partition): [batch]})

    def close(self) -> None:
        self._client.close()


class KafkaWorker:
    def __init__(self, address: str) -> None:
        self._worker = QueueWorker(address, TOPIC, GROUP)
        self._done: list[Received] = []

    def take(self, count: int) -> list[bytes]:
        self._done = self._worker.receive(count, wait_ms=WAIT_MS, done=self._done)
        return [record.value or b"" for some in self._done for record in some.records()]

    def finish(self) -> None:
        if self._done:
            self._worker.ack(*self._done)
            self._done = []

    def close(self) -> None:
        self._worker.close()


# --- HTTP, as little of it as a load generator needs ----------------------------------------------


class Link:
    """One connection that stays open."""

    def __init__(self, url: str) -> None:
        found = urlsplit(url)
        address = found.hostname or "127.0.0.1", found.port or 80
        self._socket = socket.create_connection(address, timeout=ANSWER_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")

    def send(self, method: str, path: str, body: object) -> bytes:
        data = msgspec.json.encode(body)
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self._socket.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        status = int(self._answers.readline().split(b" ", 2)[1])
        length = 0
        while (line := self._answers.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        content = self._answers.read(length)
        if status >= 300 or status == 207:
            raise Failed(f"{method} {path}: {status} {content[:300]!r}")
        return content

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class Taken(msgspec.Struct, frozen=True, gc=False):
    value: str
    receipt_handle: str
    key: str | None = None


class TakenMany(msgspec.Struct, frozen=True):
    messages: list[Taken]


_taken = msgspec.json.Decoder(TakenMany)


class HttpDoor(Door):
    name = "http"

    def publisher(self) -> Publisher:
        return HttpPublisher(self.broker.http)

    def worker(self) -> Worker:
        return HttpWorker(self.broker.http)


class HttpPublisher:
    def __init__(self, url: str) -> None:
        self._link = Link(url)

    def publish(self, values: list[bytes]) -> None:
        messages = [{"value": value.decode()} for value in values]
        self._link.send("POST", f"/topics/{TOPIC}/messages", {"messages": messages})

    def close(self) -> None:
        self._link.close()


class HttpWorker:
    def __init__(self, url: str, group: str = GROUP) -> None:
        self._link = Link(url)
        self._asked = {"group": group, "consumer": f"worker-{id(self)}", "wait": WAIT_MS}
        self.taken: list[Taken] = []

    def take(self, count: int) -> list[bytes]:
        self.finish()
        asked = {**self._asked, "max_messages": count}
        answer = self._link.send("POST", f"/queues/{TOPIC}/receive", asked)
        self.taken = _taken.decode(answer).messages
        return [each.value.encode() for each in self.taken]

    def finish(self) -> None:
        self.settle("ack", [each.receipt_handle for each in self.taken])
        self.taken = []

    def settle(self, how: str, receipts: list[str], **more: Any) -> None:
        if receipts:
            body = {"receipt_handles": receipts, "quiet": True, **more}
            self._link.send("POST", f"/messages/{how}", body)

    def close(self) -> None:
        self._link.close()
