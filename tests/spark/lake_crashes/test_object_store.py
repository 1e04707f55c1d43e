"""Archives in an object store: drivers that are killed, and a store that goes away."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from pyiceberg.utils.config import Config

from goqueue.spark.lake import FORMATS
from tests.spark.conftest import Fill
from tests.spark.lake_crashes.relay import Relay
from tests.spark.lake_crashes.scene import Scene
from tests.unit.spark.lake.object_store import BUCKET, KEYS, object_store, point_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "PYICEBERG_CATALOG__PROD__"
POINTS = ("before", "middle", "after")
DEATHS = [
    (format, point)
    for format in FORMATS
    for point in POINTS
    if (format, point) != ("delta", "middle")
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture
def relay() -> Iterator[Relay]:
    with object_store() as url:
        parts = urlsplit(url)
        with Relay((str(parts.hostname), int(parts.port or 0))).running() as relay:
            yield relay


@pytest.fixture
def scene(
    spark: "SparkSession",
    broker: str,
    topic: str,
    relay: Relay,
    tmp_path: Path,
    fill: Fill,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Scene:
    point_to(monkeypatch, relay.url)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": relay.url}.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    monkeypatch.setenv(f"{CATALOG}TYPE", "sql")
    monkeypatch.setenv(f"{CATALOG}URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    monkeypatch.chdir(tmp_path)  # for the checkpoint
    catalog = "prod.raw" if request.getfixturevalue("format") == "iceberg" else None
    scene = Scene(spark, broker, topic, f"s3://{BUCKET}/home", catalog)
    scene.fill(fill)
    return scene


@pytest.mark.parametrize(("format", "point"), DEATHS)
def test_a_driver_may_die_anywhere(scene: Scene, format: str, point: str):
    for commit in (2, 1):
        scene.die(format, point, commit)
    scene.finish(format)
    scene.check(format)


@pytest.mark.parametrize("format", FORMATS)
def test_a_store_may_go_away_and_come_back(scene: Scene, relay: Relay, format: str):
    """At another moment each time.  A job that fails for it is started again."""
    for connections in (3, 9, 20, 45):
        relay.cut_after(connections)
        with contextlib.suppress(Exception):  # rule-ok: whatever the store's client says
            scene.finish(format)
    relay.mend()
    scene.finish(format)
    assert relay.cuts >= 1
    scene.check(format)
