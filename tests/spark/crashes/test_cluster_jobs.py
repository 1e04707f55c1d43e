"""Jobs against three nodes that are killed with -9 and started again: exactly once, all the same.

The short slice runs always; `make spark-chaos` runs the long ones.
"""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from goqueue.client import Client
from goqueue.spark.archive.job import AVAILABLE_NOW, archive
from goqueue.spark.archive.options import ArchiveOptions
from goqueue.spark.report.job import make_report
from goqueue.spark.report.options import ReportOptions
from tests.spark.crashes.cluster_scene import ClusterScene, cluster_scene
from tests.spark.crashes.job import started
from tests.unit.spark.archive.topic_log import read_table

SINKS = ("stream", "shuffled", "foreach_batch")
ALL = (2, 3, 1)  # node 1 has the vote: without it nobody is elected until it is back


def copy(scene: ClusterScene, spark: SparkSession, kind: str) -> None:
    query = started(scene.settings(kind), spark)
    query.awaitTermination()
    assert query.exception() is None


def test_a_copy_is_exact_while_a_node_dies(tmp_path: Path, spark: SparkSession):
    with cluster_scene(tmp_path, batches=3) as scene:
        with scene.killing(2):
            copy(scene, spark, "stream")
        assert scene.kills >= 1
        scene.check()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", SINKS)
def test_copies_are_exact_while_nodes_die_in_turn(tmp_path: Path, spark: SparkSession, kind: str):
    with cluster_scene(tmp_path, batches=12) as scene:
        with scene.killing(*ALL):
            copy(scene, spark, kind)
        assert scene.kills >= 3
        scene.check()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_batches_have_every_row_while_nodes_die_in_turn(tmp_path: Path, spark: SparkSession):
    with cluster_scene(tmp_path, batches=10) as scene, scene.killing(*ALL):
        for _ in range(10):
            rows = (
                spark.read.format("goqueue")
                .option("bootstrap.servers", scene.bootstrap)
                .option("subscribe", "source")
                .load()
            )
            found = Counter(bytes(row.value) for row in rows.select("value").collect())
            assert found == scene.expected


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_an_archive_and_a_report_are_whole_while_nodes_die_in_turn(
    tmp_path: Path, spark: SparkSession
):
    with cluster_scene(tmp_path, batches=20) as scene:
        with scene.killing(*ALL):
            options = ArchiveOptions(
                bootstrap=scene.bootstrap,
                topics=("source",),
                target=str(tmp_path / "lake"),
                trigger=AVAILABLE_NOW,
                batch_bytes=1 << 16,
            )
            query = archive(spark, options)
            query.awaitTermination()
            assert query.exception() is None
            urls = ",".join(node.http for node in scene.nodes)
            with Client(urls, timeout=120, retries=1000) as client:
                report = ReportOptions(topics=("source",), servers=scene.bootstrap)
                figures = make_report(spark, client, report, now=datetime.now(tz=UTC))
        rows = read_table(tmp_path / "lake", "source")
        assert Counter(row["value"] for row in rows) == scene.expected
        assert figures.topics[0].totals["messages"] == scene.rows
