"""Apache Kafka's `kafka-configs.sh` sets quotas of users, clients and addresses."""

import shutil

import pytest

from tests.conformance.server import Server
from tests.conformance.test_java import CACHE, VERSION, fetch, run_java

CORE = CACHE / f"{VERSION}-core"
USER = ("--entity-type", "users", "--entity-name", "alice")
CLIENT = ("--entity-type", "clients", "--entity-name", "app")
OTHERS = ("--entity-type", "clients", "--entity-default")
ADDRESS = ("--entity-type", "ips", "--entity-name", "127.0.0.9")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
    pytest.mark.skipif(not shutil.which("mvn"), reason="needs Maven"),
]


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    fetch("kafka_2.13", CORE)


def configure(server: Server, *arguments: str, code: int = 0) -> str:
    at = ("--bootstrap-server", server.address)
    done = run_java(CORE, "kafka.admin.ConfigCommand", *at, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_quotas_are_set_described_and_removed(server: Server) -> None:
    rates = "producer_byte_rate=1024,consumer_byte_rate=2048"
    configure(server, "--alter", "--add-config", rates, *USER, *CLIENT)
    configure(server, "--alter", "--add-config", "producer_byte_rate=4096", *OTHERS)
    configure(server, "--alter", "--add-config", "connection_creation_rate=7", *ADDRESS)
    told = configure(server, "--describe", *USER, *CLIENT)
    assert "consumer_byte_rate=2048.0, producer_byte_rate=1024.0" in told
    assert "producer_byte_rate=4096.0" in configure(server, "--describe", *OTHERS)
    assert "connection_creation_rate=7.0" in configure(server, "--describe", *ADDRESS)
    for entity in ((*USER, *CLIENT), OTHERS):
        configure(server, "--alter", "--delete-config", "producer_byte_rate", *entity)
    configure(server, "--alter", "--delete-config", "consumer_byte_rate", *USER, *CLIENT)
    configure(server, "--alter", "--delete-config", "connection_creation_rate", *ADDRESS)
    assert "4096" not in configure(server, "--describe", *OTHERS)
    refused = configure(server, "--alter", "--add-config", "request_percentage=20", *OTHERS, code=1)
    assert "set request_rate" in refused
