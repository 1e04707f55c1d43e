"""Spark Connect: a thin client in a process of its own, the format found by the server."""

import subprocess
import sys
from pathlib import Path

import pytest

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
