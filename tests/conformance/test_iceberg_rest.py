"""Iceberg tables under a real REST catalog, in an object store.

Skipped, with the reason, where the catalog cannot be had from Maven.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("moto")

import pyarrow as pa
from pyiceberg.utils.config import Config

from bench.kafka_connector import NotToBeHad
from goqueue.spark.lake import LakeTable, MarksMoved, open_table
from goqueue.spark.lake.store import store_of
from goqueue.spark.runtime.java import find_java
from tests.conformance.iceberg_rest.proxy import Blow, CommitProxy
from tests.conformance.iceberg_rest.server import RestCatalogServer, fetch_jars
from tests.unit.spark.lake.object_store import KEYS, object_store, point_to
from tests.unit.spark.lake.readers import read_from_store
from tests.unit.spark.lake.test_object_store import SCHEMA, rows, written

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = "s3://lake/tables/orders"
MARK = "orders/0"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalogServer]:
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
            point_catalog_to(monkeypatch, server.url)
            yield server
        finally:
            server.kill()


def point_catalog_to(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", "rest")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", url)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())


def open_again() -> LakeTable:
    return open_table(
        "iceberg", ROOT, date_column="date", time_column="timestamp", catalog="prod.raw"
    )


def offsets() -> list[int]:
    return sorted(read_from_store("iceberg", ROOT, "prod.raw")["offset"].to_pylist())


@pytest.mark.usefixtures("server")
def test_a_table_lives_in_a_rest_catalog():
    table = open_again()
    assert (table.schema(), table.files()) == (None, [])
    table.ensure(SCHEMA)
    table.commit(written(table, rows(0, 86_400)), {MARK: 1}, {})
    rival = open_again()
    with pytest.raises(MarksMoved):
        rival.commit(written(rival, rows(0)), {MARK: 1}, {})
    wider = SCHEMA.append(pa.field("price", pa.float64()))
    table.ensure(wider)
    assert open_again().schema().equals(wider)
    table.commit(written(table, rows(1, schema=wider)), {MARK: 2}, {MARK: 1})
    table.replace(table.files(), written(table, rows(0, 1), rows(86_400)))
    assert len(table.files()) == 2
    table.vacuum(hours=0, dry_run=False)
    assert (offsets(), open_again().marks([MARK])) == ([0, 1, 86_400], {MARK: 2})


@pytest.mark.parametrize("blow", ["before", "after"])
def test_a_catalog_that_dies_in_a_commit_leaves_all_of_it_or_nothing(
    server: RestCatalogServer, monkeypatch: pytest.MonkeyPatch, blow: Blow
):
    """The client cannot know which; the marks do."""
    table = open_again()
    table.ensure(SCHEMA)
    with CommitProxy(server.url, server.restart).running() as proxy:
        point_catalog_to(monkeypatch, proxy.url)
        table = open_again()
        files = written(table, rows(0, 1))
        proxy.blows.append(blow)
        with pytest.raises((MarksMoved, OSError)):
            table.commit(files, {MARK: 2}, {})
        assert proxy.struck == [blow]
        table = open_again()
        if blow == "after":
            assert table.marks([MARK]) == {MARK: 2}
        else:
            assert table.marks([MARK]) == {}
            table.commit(files, {MARK: 2}, {})
        assert offsets() == [0, 1]
