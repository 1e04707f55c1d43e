"""Spark Connect: a thin client in a process of its own, the format found by the server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from goqueue.client import Client
from tests.spark.test_pipeline_commands import COMMAND

JOB = Path(__file__).with_name("connect_job.py")
JOB_S = 300.0


@pytest.fixture
def remote(spark):
    """A Connect server in the JVM of our session."""
    for module in ("grpc", "pandas"):
        pytest.importorskip(module, reason="needs pyspark[connect]")
    context = spark.sparkContext
    package = context._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    service.start(context._jsc.sc())
    yield f"sc://127.0.0.1:{service.localPort()}"
    nothing = context._jvm.scala.Option.empty()
    service.stop(nothing, nothing)


def test_a_client_of_spark_connect_reads_topics(remote, broker, fill, topic, tmp_path):
    fill(topic, 0, ["a", "b"])
    fill(topic, 1, ["c"])
    done = subprocess.run(
        [sys.executable, str(JOB), remote, broker, topic, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["BATCH a b c", "STREAM 3"], done.stderr[-3000:]


PIPELINE = """
name: connected
sources:
  orders: {{topic: {topic}, schema: "id bigint, price double", bad: drop}}
steps:
  dear: select id, price from orders where price > 1
sinks:
  out: {{topic: {topic}.dear, from: dear, partitions: 1}}
  files: {{files: files, from: dear, format: json}}
"""


@pytest.mark.slow
def test_a_pipeline_runs_over_connect_and_goes_on_from_its_checkpoint(
    remote, broker, client, fill, topic, tmp_path
):
    file = tmp_path / "connected.yaml"
    file.write_text(PIPELINE.format(topic=topic))
    written = []
    for price in (2, 3):
        fill(topic, 0, [f'{{"id": {price}, "price": {price}}}', '{"id": 0, "price": 1}', "no json"])
        done = run_pipeline(client, broker, file, remote)
        assert done.returncode == 0, done.stderr[-3000:]
        with Client(client.http_url()) as http:
            written = [each.value for each in http.read(f"{topic}.dear")]
    assert written == [b'{"id":2,"price":2.0}', b'{"id":3,"price":3.0}']
    rows = [line for each in (tmp_path / "files").glob("*.json") for line in each.open()]
    assert len(rows) == 2


@pytest.mark.slow
def test_what_the_driver_must_commit_is_refused_over_connect(
    remote, broker, client, fill, topic, tmp_path
):
    fill(topic, 0, ["a"])
    file = tmp_path / "archived.yaml"
    file.write_text(
        f"name: archived\nsources: {{lines: {{topic: {topic}}}}}\n"
        "sinks: {lake: {from: lines, archive: lake}}\n"
    )
    done = run_pipeline(client, broker, file, remote)
    assert done.returncode != 0
    assert "tables are committed by the driver" in done.stderr


def run_pipeline(client, broker, file, remote):
    return subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            COMMAND,
            "pipeline",
            "run",
            str(file),
            "--once",
            "--master",
            remote,
            "--bootstrap",
            broker,
        ],
        env={**os.environ, "GOQUEUE_SERVER": client.http_url()},
        capture_output=True,
        text=True,
        timeout=JOB_S,
        check=False,
    )
