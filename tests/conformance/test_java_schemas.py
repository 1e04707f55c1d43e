"""Confluent's Java client of its registry and its Avro serializers, against `/registry`.

Maven Central has no artifacts of Confluent (packages.confluent.io has them), but a plugin of Apache
Pinot, which carries them unchanged with Apache Kafka's client.  It is fetched once and kept in the
user's cache.  Nothing there has the serializers of JSON Schema and Protobuf.
Slow: `pytest -m slow tests/conformance/test_java_schemas.py`.
"""

import hashlib
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server

PROGRAMS = Path(__file__).parent / "schema_client"
NAME = "pinot-confluent-avro-1.5.0-shaded.jar"
SOURCE = f"https://repo1.maven.org/maven2/org/apache/pinot/pinot-confluent-avro/1.5.0/{NAME}"
DIGEST = "fcba31945ab17f393008f46975b37dd12516e59f536b0bec5a19ab9fd84464d1"
JAR = Path.home() / ".cache" / "goqueue-java" / NAME

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
]


@pytest.fixture(scope="module", autouse=True)
def jar() -> None:
    if JAR.exists():
        return
    try:
        with urllib.request.urlopen(SOURCE, timeout=120) as reply:
            content = reply.read()
    except OSError as error:
        pytest.skip(f"{SOURCE} is not reached: {error}")
    assert hashlib.sha256(content).hexdigest() == DIGEST
    JAR.parent.mkdir(parents=True, exist_ok=True)
    JAR.write_bytes(content)


def run(program: str, *arguments: str) -> None:
    command = ["java", "-cp", str(JAR), str(PROGRAMS / program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it" in done.stdout


def test_the_java_client_registers_evolves_and_deletes(server: Server, names: Iterator[str]):
    url = f"http://{server.http_address}/registry"
    run("RegistryClient.java", url, f"{next(names)}-value")


def test_java_serializers_round_trip_evolve_and_hear_why_not(server: Server, make_topic: MakeTopic):
    topic = make_topic(
        goqueue_schema_validation="full",
        goqueue_schema_key_validation="full",
    )
    run("AvroSerializers.java", server.address, f"http://{server.http_address}/registry", topic)
