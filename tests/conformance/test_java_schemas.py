"""Confluent's Java client of its registry, against `/registry`.

Maven Central has no artifacts of Confluent (packages.confluent.io has them), but Flink's connector,
which carries the client unchanged below a package of its own.  The jar is fetched once and kept in
the user's cache.  Slow: `pytest -m slow tests/conformance/test_java_schemas.py`.
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
URL = (
    "https://repo1.maven.org/maven2/org/apache/flink/flink-sql-avro-confluent-registry/1.20.0/"
    "flink-sql-avro-confluent-registry-1.20.0.jar"
)
SHA256 = "3aee7adef69dddf134980a37e79847798b976a57ada7dc43f4baa8a8aa3adccb"
JAR = Path.home() / ".cache" / "goqueue-java" / URL.rpartition("/")[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("java"), reason="needs java"),
]


@pytest.fixture(scope="module")
def jar() -> Path:
    if not JAR.exists():
        try:
            with urllib.request.urlopen(URL, timeout=120) as reply:
                content = reply.read()
        except OSError as error:
            pytest.skip(f"{URL} is not reached: {error}")
        assert hashlib.sha256(content).hexdigest() == SHA256
        JAR.parent.mkdir(parents=True, exist_ok=True)
        JAR.write_bytes(content)
    return JAR


def test_the_java_client_registers_evolves_and_deletes(
    server: Server, jar: Path, names: Iterator[str]
):
    url = f"http://{server.http_address}/registry"
    command = ["java", "-cp", str(jar), str(PROGRAM), url, f"{next(names)}-value"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all of it" in done.stdout
