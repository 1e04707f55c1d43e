"""NATS 2.12 and later: scheduled messages of a stream on file, with publish acks.

It is synced every two minutes, as it is when nothing is said (`nats`), or always (`nats-synced`).
"""

import json
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.delays.figures import (
    Burst,
    Reader,
    due_times,
    enough_lead_ms,
    now_ms,
    to_burst,
    to_value,
)
from bench.process import Failed
from bench.queues.peers import Nats, UnsyncedNats

STREAM = "delayed"
WINDOW = 1_000  # publishes that wait for their ack


class NatsLink:
    """The protocol of NATS, as far as this needs it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._lines = self._socket.makefile("rb")
        self._lines.readline()
        self.send(b'CONNECT {"verbose": false, "headers": true}\r\n')

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def subscribe(self, subject: str, number: int) -> None:
        self.send(f"SUB {subject} {number}\r\n".encode())

    def receive(self) -> tuple[int, bytes]:
        """The next message: the subscription's number, and the payload."""
        while True:
            line = self._lines.readline()
            words = line.split()
            if not words:
                raise Failed("nats closed the connection")
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"MSG":
                return int(words[2]), self._lines.read(int(words[-1]) + 2)[:-2]
            elif words[0] == b"HMSG":
                data = self._lines.read(int(words[-1]) + 2)[:-2]
                return int(words[2]), data[int(words[-2]) :]
            elif words[0] == b"-ERR":
                raise Failed(f"nats: {line.decode()}")

    def ask(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        self.send(_publish(f"$JS.API.{subject}", "answers", json.dumps(body).encode()))
        answer: dict[str, Any] = json.loads(self.receive()[1])
        if "error" in answer:
            raise Failed(f"nats: {answer['error']}")
        return answer


def _publish(subject: str, reply: str, payload: bytes, headers: bytes = b"") -> bytes:
    if not headers:
        return f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n"
    head = b"NATS/1.0\r\n" + headers + b"\r\n"
    sizes = f"{len(head)} {len(head) + len(payload)}"
    return f"HPUB {subject} {reply} {sizes}\r\n".encode() + head + payload + b"\r\n"


def measure(directory: Path, count: int, lead_ms: int, seconds_max: float) -> Burst:
    return _measure(UnsyncedNats(directory), "nats", count, lead_ms, seconds_max)


def measure_synced(directory: Path, count: int, lead_ms: int, seconds_max: float) -> Burst:
    return _measure(Nats(directory), "nats-synced", count, lead_ms, seconds_max)


def _measure(broker: Nats, name: str, count: int, lead_ms: int, seconds_max: float) -> Burst:
    try:
        broker.start()
        link = NatsLink(broker.port)
        link.subscribe("answers", 1)
        subjects = ["schedule.>", "ready", "probe"]
        config = {"name": STREAM, "subjects": subjects, "storage": "file"}
        link.ask(f"STREAM.CREATE.{STREAM}", {**config, "allow_msg_schedules": True})

        def probe(some: int) -> None:
            payload = b"x" * 100
            _accept(link, [_publish("probe", "answers", payload) for _ in range(some)])

        due = due_times(count, now_ms() + enough_lead_ms(count, lead_ms, probe))
        started = time.monotonic()
        for first in range(0, count, WINDOW):
            some = range(first, min(first + WINDOW, count))
            _accept(link, [_schedule(number, due[number]) for number in some])
        seconds = time.monotonic() - started
        reader = _read_all(broker.port, count, seconds_max)
        return to_burst(name, seconds, reader.verify(), broker.usage().resident_bytes_peak)
    finally:
        broker.stop()


def _accept(link: NatsLink, messages: Sequence[bytes]) -> None:
    """All of them, each with an ack."""
    link.send(b"".join(messages))
    for _ in messages:
        answer = json.loads(link.receive()[1])
        if "error" in answer:
            raise Failed(f"nats: {answer['error']}")


def _schedule(number: int, due: int) -> bytes:
    when = datetime.fromtimestamp(due / 1000, UTC).isoformat(timespec="milliseconds")
    headers = f"Nats-Schedule: @at {when.replace('+00:00', 'Z')}\r\nNats-Schedule-Target: ready\r\n"
    return _publish(f"schedule.{number}", "answers", to_value(number, due), headers.encode())


def _read_all(port: int, count: int, seconds_max: float) -> Reader:
    link = NatsLink(port)
    link.subscribe("answers", 1)
    link.subscribe("mine", 2)
    consumer = {
        "name": "reader",
        "deliver_subject": "mine",
        "ack_policy": "none",
        "deliver_policy": "all",
        "filter_subject": "ready",
    }
    body = {"stream_name": STREAM, "config": consumer, "action": "create"}
    link.send(
        _publish(
            f"$JS.API.CONSUMER.CREATE.{STREAM}.reader.ready", "answers", json.dumps(body).encode()
        )
    )
    reader, deadline = Reader(count), time.monotonic() + seconds_max
    while not reader.is_done and time.monotonic() < deadline:
        number, payload = link.receive()
        if number == 2:
            reader.note(payload)
        elif b'"error"' in payload:
            raise Failed(f"nats: {payload.decode()}")
    return reader
