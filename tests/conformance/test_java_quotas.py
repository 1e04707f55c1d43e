"""Apache Kafka's `kafka-configs.sh` sets quotas of users, clients and addresses."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance.server import Server
from tests.conformance.test_java import VERSION

LIBRARIES = Path.home() / ".cache" / "goqueue-java" / f"{VERSION}-core"
POM = f"""<project><modelVersion>4.0.0</modelVersion>
<groupId>goqueue</groupId><artifactId>java-core</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{VERSION}</version></dependency>
</dependencies></project>
"""
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
    if LIBRARIES.is_dir():
        return
    LIBRARIES.parent.mkdir(parents=True, exist_ok=True)
    pom = LIBRARIES.parent / "core.xml"
    pom.write_text(POM)
    output = f"-DoutputDirectory={LIBRARIES}"
    command = ["mvn", "-q", "-f", str(pom), "dependency:copy-dependencies", output]
    subprocess.run(command, check=True, timeout=500, capture_output=True)


def configure(server: Server, *arguments: str, code: int = 0) -> str:
    command = ["java", "-cp", f"{LIBRARIES}/*", "kafka.admin.ConfigCommand"]
    command += ["--bootstrap-server", server.address, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
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
