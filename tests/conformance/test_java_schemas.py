"""Confluent's Java client of its registry, against `/registry`.

Maven Central has no artifacts of Confluent (packages.confluent.io has them), but Flink's connector,
which carries the client unchanged below a package of its own.  The jars are fetched once and kept
in the user's cache.  Slow: `pytest -m slow tests/conformance/test_java_schemas.py`.
"""

import hashlib
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.server import Server

PROGRAM = Path(__file__).parent / "schema_client" / "RegistryClient.java"
CENTRAL = "https://repo1.maven.org/maven2/org/"
JARS = {
    "apache/flink/flink-sql-avro-confluent-registry/1.20.0/"
    "flink-sql-avro-confluent-registry-1.20.0.jar": (
        "3aee7adef69dddf134980a37e79847798b976a57ada7dc43f4baa8a8aa3adccb"
    ),
    "slf4j/slf4j-api/1.7.36/slf4j-api-1.7.36.jar": (
        "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"
    ),
    "slf4j/slf4j-nop/1.7.36/slf4j-nop-1.7.36.jar": (
        "c214958b07816cb4412b30c7bdbd4308ffdc6ba2a83767b8f3a9229cbd9274d6"
    ),
}
LIBRARIES = Path.home() / ".cache" / "goqueue-java" / "registry"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
]


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    LIBRARIES.mkdir(parents=True, exist_ok=True)
    for path, digest in JARS.items():
        jar = LIBRARIES / path.rpartition("/")[2]
        if jar.exists():
            continue
        try:
            with urllib.request.urlopen(CENTRAL + path, timeout=120) as reply:
                content = reply.read()
        except OSError as error:
            pytest.skip(f"{CENTRAL + path} is not reached: {error}")
        assert hashlib.sha256(content).hexdigest() == digest
        jar.write_bytes(content)


def test_the_java_client_registers_evolves_and_deletes(server: Server, names: Iterator[str]):
    url = f"http://{server.http_address}/registry"
    command = ["java", "-cp", f"{LIBRARIES}/*", str(PROGRAM), url, f"{next(names)}-value"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it" in done.stdout
