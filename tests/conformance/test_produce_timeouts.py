"""A disk that does not sync: producers are told in the time they gave, and go on when it does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from confluent_kafka import KafkaError, Producer

from goqueue.model.config import HttpConfig
from tests.conformance.clients import WAIT_S, Confluent
from tests.conformance.conftest import free_port_config
from tests.conformance.server import NODE, Server

TOPIC = "held"


@pytest.fixture
def stuck_server(tmp_path: Path) -> Iterator[Server]:
    config = msgspec.structs.replace(
        free_port_config(tmp_path),
        http=HttpConfig(listen="127.0.0.1:0", publish_timeout_ms=200),
    )
    server = Server(config, NODE.with_name("stuck_node.py")).start()
    yield server
    server.kill()


def send(server: Server, value: bytes, **settings: Any) -> tuple[Producer, list[KafkaError | None]]:
    """The producer, and what becomes of the message once `flush` has returned."""
    producer = Producer({**server.bootstrap, **settings})
    outcome: list[KafkaError | None] = []
    producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, _: outcome.append(error))
    return producer, outcome


def test_who_waits_for_a_stuck_disk_is_told_in_time(stuck_server: Server):
    producer, outcome = send(stuck_server, b"before")
    assert producer.flush(WAIT_S) == 0
    assert outcome == [None]
    flag = Path(stuck_server.data_dir) / "stuck"
    flag.touch()

    producer, outcome = send(stuck_server, b"late", **{"request.timeout.ms": 200, "retries": 0})
    assert producer.flush(WAIT_S) == 0
    assert outcome[0] is not None
    assert outcome[0].code() == KafkaError.REQUEST_TIMED_OUT

    answer = httpx.post(
        f"http://{stuck_server.http_address}/topics/{TOPIC}/messages?partition=0",
        content=b"over http",
        headers={"Content-Type": "text/plain"},
        timeout=WAIT_S,
    )
    assert answer.status_code == 504
    assert answer.headers["Retry-After"] == "1"
    assert answer.json()["error"]["code"] == "timed_out"

    again, outcome = send(
        stuck_server, b"again", **{"request.timeout.ms": 200, "enable.idempotence": True}
    )
    assert again.flush(0.5) == 1, "it is told and tries again"
    flag.unlink()
    assert again.flush(WAIT_S) == 0
    assert outcome == [None]
    found = Confluent().read(stuck_server.address, TOPIC, 4)
    assert [each.message.value for each in found] == [b"before", b"late", b"over http", b"again"]
