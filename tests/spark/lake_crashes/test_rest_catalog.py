"""Archives and merges under a REST catalog that is killed in the middle of commits."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.utils.config import Config

from bench.kafka_connector import NotToBeHad
from goqueue.spark.lake.store import store_of
from goqueue.spark.runtime.java import find_java
from tests.conformance.iceberg_rest.proxy import Blow, CommitProxy
from tests.conformance.iceberg_rest.server import RestCatalogServer, fetch_jars
from tests.spark.conftest import Fill
from tests.spark.lake_crashes.scene import Scene
from tests.unit.spark.lake.object_store import BUCKET, KEYS, object_store, point_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "PYICEBERG_CATALOG__PROD__"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture
def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CommitProxy]:
    try:
        class_path = fetch_jars()
    except NotToBeHad as error:
        pytest.skip(f"Apache's REST catalog is not to be had: {error}")
    with object_store() as store:
        point_to(monkeypatch, store)
        store_of.cache_clear()  # it has connections to the store of another test
        java = find_java({**os.environ, **KEYS}).command
        server = RestCatalogServer(class_path, java, tmp_path / "catalog.db", store)
        server.start()
        try:
            with CommitProxy(server.url, server.restart).running() as proxy:
                yield proxy
        finally:
            server.kill()


@pytest.fixture
def scene(
    spark: "SparkSession",
    broker: str,
    topic: str,
    proxy: CommitProxy,
    tmp_path: Path,
    fill: Fill,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    for name in (*KEYS, "AWS_ENDPOINT_URL"):
        monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    monkeypatch.setenv(f"{CATALOG}TYPE", "rest")
    monkeypatch.setenv(f"{CATALOG}URI", proxy.url)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    monkeypatch.chdir(tmp_path)  # for the checkpoint
    scene = Scene(spark, broker, topic, f"s3://{BUCKET}/home", "prod.raw")
    scene.fill(fill)
    return scene


def test_a_rest_catalog_may_die_in_any_commit(scene: Scene, proxy: CommitProxy):
    """Before it has the commit, or after and before it says so.  A job that fails for it is
    started again, as `pipeline serve` does."""
    blows: list[Blow] = ["before", "after", "after", "before", "after", "before"]
    proxy.blows.extend(blows)
    for _ in blows:
        with contextlib.suppress(Exception):  # rule-ok: whatever the catalog's client says
            scene.finish("iceberg")
    scene.finish("iceberg")
    assert proxy.struck == blows
    scene.check("iceberg")


def test_a_driver_may_die_beside_a_rest_catalog(scene: Scene):
    for point, commit in (("before", 1), ("after", 2), ("after", 1)):
        scene.die("iceberg", point, commit)
    scene.finish("iceberg")
    scene.check("iceberg")
