"""Priority lanes under a backlog of a million, through a running server.

The figures are printed: `pytest -m slow -s tests/conformance/test_http_lanes.py`.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from confluent_kafka import Producer

from goqueue.queue.lanes import NAMES, WEIGHTS
from tests.conformance.http_groups import HttpGroupServer

COUNT = 1_000_000
AT_ONCE = 1_000
BACKLOGGED = COUNT * 3 // 10  # deliveries before the first lane is empty: critical has a fifth

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpGroupServer]:
    server = HttpGroupServer(tmp_path)
    server.start()
    yield server
    server.kill()


class Seen(msgspec.Struct):
    value: str
    priority: str
    receipt_handle: str


class Answer(msgspec.Struct):
    messages: list[Seen]


DECODER = msgspec.json.Decoder(Answer)


def publish(server: HttpGroupServer, topic: str, priorities: list[str], first: int = 0) -> None:
    producer = Producer(
        {**server.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2**21}
    )
    for number, priority in enumerate(priorities, first):
        producer.produce(topic, str(number).encode(), headers=[("gq-priority", priority.encode())])
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(300) == 0


def receive(client: httpx.Client, topic: str, count: int = AT_ONCE) -> list[Seen]:
    body: dict[str, Any] = {"group": "workers", "max_messages": count, "wait": "5s"}
    answer = client.post(f"/queues/{topic}/receive", json=body)
    assert answer.status_code == 200, answer.text
    return DECODER.decode(answer.content).messages


def ack(client: httpx.Client, messages: list[Seen]) -> None:
    handles = [each.receipt_handle for each in messages]
    answer = client.post("/messages/ack", json={"receipt_handles": handles, "quiet": True})
    assert answer.status_code == 200, answer.text


def test_a_million_mixed_messages_are_shared_by_weight_and_none_is_skipped(
    server: HttpGroupServer,
):
    topic = server.topic(3)
    publish(server, topic, [NAMES[number % 5] for number in range(COUNT)])
    seen = bytearray(COUNT)
    order: list[str] = []
    started = time.monotonic()
    while messages := receive(server.client, topic):
        for each in messages:
            seen[int(each.value)] += 1
        if len(order) < BACKLOGGED:
            order += [each.priority for each in messages]
        ack(server.client, messages)
    took = time.monotonic() - started
    assert seen == b"\1" * COUNT, "skipped, or twice"
    for start in range(0, BACKLOGGED, BACKLOGGED // 3):  # at any time, not only in the end
        counts = Counter(order[start : start + BACKLOGGED // 3])
        shares = {name: 100 * counts[name] / counts.total() for name in NAMES}
        print({name: round(share, 2) for name, share in shares.items()})
        for name, weight in zip(NAMES, WEIGHTS, strict=True):
            assert abs(shares[name] - weight) < 2, shares
    print(f"{COUNT} received and acked over HTTP in {took:.0f} s")


def test_a_burst_of_critical_messages_overtakes_a_million(
    server: HttpGroupServer, eventually: Callable[..., None]
):
    topic = server.topic(3)
    publish(server, topic, ["low"] * COUNT)
    ack(server.client, receive(server.client, topic))
    eventually(lambda: low_ready(server) == COUNT - AT_ONCE, within_s=300)  # all looked through
    publish(server, topic, ["critical"] * 300, first=COUNT)
    started = time.monotonic()
    assert {each.priority for each in receive(server.client, topic, 50)} == {"critical"}
    print(f"the receive behind the burst took {(time.monotonic() - started) * 1000:.0f} ms")
    found = receive(server.client, topic, 600)
    assert Counter(each.priority for each in found)["critical"] == 250


def low_ready(server: HttpGroupServer) -> int:
    found = server.get("/priority/stats", group="workers")["lanes"]["low"]["ready"]
    assert isinstance(found, int)
    return found
