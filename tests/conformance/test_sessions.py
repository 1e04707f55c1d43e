"""A Kafka client logs in again on its connection (KIP-368), and is cut off with its password."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import httpx
import msgspec
import pytest
from confluent_kafka import KafkaError

from goqueue.model.config import AuthConfig
from tests.conformance.conftest import free_port_config
from tests.conformance.server import Server

ROOT = ("root", "s3cret")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "password").write_text(ROOT[1])
    auth = AuthConfig(
        enabled=True,
        init_admin=ROOT[0],
        init_admin_password_file=str(tmp_path / "password"),
        session_ms=1_000,
        failed_login_delay_ms=0,
    )
    server = Server(msgspec.structs.replace(free_port_config(tmp_path / "data"), auth=auth)).start()
    yield server
    server.stop()


def logins(server: Server) -> int:
    """Answers to SaslAuthenticate."""
    text = httpx.get(f"http://{server.http_address}/metrics", auth=ROOT).text
    found = re.search(r'request_seconds_count\{api="sasl_authenticate"\} (\d+)', text)
    return int(found[1]) if found else 0


def test_librdkafka_logs_in_again_and_is_cut_off_when_its_password_changes(server: Server):
    users = f"http://{server.http_address}/admin/users/alice"
    body = {"password": "one", "roles": ["producer"]}
    assert httpx.put(users, json=body, auth=ROOT).is_success
    errors: list[KafkaError] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": server.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "one",
            "error_cb": errors.append,
            "log_level": 0,
        }
    )

    def produce() -> None:
        producer.produce("t", b"x")
        assert producer.flush(20) == 0

    produce()
    before = logins(server)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        produce()
        producer.poll(0.1)
    assert logins(server) >= before + 2
    assert not errors
    assert "has not logged in again" not in server.log()

    assert httpx.put(users, json={"password": "two"}, auth=ROOT).is_success
    for _ in range(100):
        producer.poll(0.1)
        if any(each.code() == KafkaError._AUTHENTICATION for each in errors):
            break
    assert any(each.code() == KafkaError._AUTHENTICATION for each in errors)
