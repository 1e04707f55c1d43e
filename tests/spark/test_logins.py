"""Spark and pipelines against a server with TLS and logins, by every mechanism."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.conformance.guarded import Guarded

SECRET = "s3cret"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("guarded"))
    yield guarded
    guarded.server.stop()
    assert "Traceback" not in guarded.server.log(), guarded.server.log()


def login(guarded: Guarded, mechanism: str) -> dict[str, str]:
    trust = {"security.protocol": "SASL_SSL", "ssl.truststore.location": guarded.authority.file}
    if mechanism == "certificate":
        cert_file, key_file = guarded.authority.issue("operator")
        shown = {"ssl.certificate.location": cert_file, "ssl.key.location": key_file}
        return {**trust, "security.protocol": "SSL", **shown}
    if mechanism == "OAUTHBEARER":
        token = guarded.directory / "token"
        token.write_text(guarded.token())
        url = {"sasl.oauthbearer.token.endpoint.url": f"file://{token}"}
        return {**trust, "sasl.mechanism": mechanism, **url}
    jaas = f'org.Module required username="root" password="{SECRET}";'
    return {**trust, "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def options(settings: dict[str, str], address: str) -> dict[str, str]:
    found = {f"kafka.{name}": value for name, value in settings.items()}
    return {"kafka.bootstrap.servers": address, **found}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"])
def test_rows_are_written_and_read(spark: SparkSession, guarded: Guarded, mechanism: str):
    told = options(login(guarded, mechanism), guarded.server.address)
    topic = f"spark-{mechanism}"
    rows = spark.createDataFrame([(f"{n}",) for n in range(50)], "value string")
    rows.write.format("goqueue").mode("append").options(**told).option("topic", topic).save()
    reading = spark.read.format("goqueue").options(**told).option("subscribe", topic)
    assert sorted(int(row.value) for row in reading.load().collect()) == list(range(50))


def test_a_wrong_password_is_told_without_the_password(spark: SparkSession, guarded: Guarded):
    settings = login(guarded, "SCRAM-SHA-512")
    settings["sasl.jaas.config"] = settings["sasl.jaas.config"].replace(SECRET, "wr0ng-one")
    reading = spark.read.format("goqueue").options(**options(settings, guarded.server.address))
    with pytest.raises(PySparkException) as refused:
        reading.option("subscribe", "t").load().collect()
    assert "password is wrong" in str(refused.value)
    assert "wr0ng-one" not in str(refused.value)


PIPELINE = """
name: copy
bootstrap: {address}
login: client.properties
trigger: available-now
sources:
  orders: {{topic: login-in, from: earliest}}
sinks:
  copied: {{from: orders, topic: login-out}}
  kept: {{from: orders, archive: lake, format: parquet}}
"""


@pytest.mark.slow
def test_a_declared_pipeline_logs_in_and_shows_no_secret(guarded: Guarded, tmp_path: Path):
    settings = login(guarded, "SCRAM-SHA-512")
    lines = [f"{name}={value}" for name, value in settings.items()]
    (tmp_path / "client.properties").write_text("\n".join(lines))
    file = tmp_path / "copy.yaml"
    file.write_text(PIPELINE.format(address=guarded.server.address))
    url, context = f"https://{guarded.server.http_address}", guarded.context
    with httpx.Client(base_url=url, verify=context, auth=("root", SECRET), timeout=60) as client:
        body = {"messages": [{"value": f"m{n}"} for n in range(10)]}
        assert client.post("/topics/login-in/messages", json=body).is_success
        assert client.post("/topics", json={"name": "login-out"}).is_success
        command = [sys.executable, "-P", "-m", "goqueue", "pipeline", "run", str(file), "--once"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stderr
        read = client.get("/topics/login-out/messages", params={"limit": 100}).json()
        assert len(read["messages"]) == 10
    assert SECRET not in ran.stdout + ran.stderr + guarded.server.log()
    assert any((tmp_path / "lake").rglob("*.parquet"))
