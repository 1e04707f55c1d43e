"""The assets, with Dagster itself: needs dagster beside this package."""

from pathlib import Path

import pytest

pytest.importorskip("dagster", reason="needs dagster")

from dagster import AssetKey, materialize

from goqueue.spark.orchestration.dagster import pipeline_assets
from tests.unit.spark.orchestration.fake_python import COPIES, FAILS, fake_python

PIPELINE = """
name: shop
sources:
  orders: {topic: orders, schema: "id bigint"}
  stores: {files: stores.json, format: json}
steps: {located: select id from orders join stores using (store)}
sinks:
  out: {topic: out, from: located}
  raw: {topic: raw, from: orders}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "shop.yaml").write_text(PIPELINE)
    return str(tmp_path / "shop.yaml")


def test_each_sink_is_an_asset_that_stands_on_its_topics(tmp_path: Path, file: str):
    assets = pipeline_assets(file, python=fake_python(tmp_path, COPIES), key_prefix=["lake"])
    out, raw = AssetKey(["lake", "shop", "out"]), AssetKey(["lake", "shop", "raw"])
    assert assets.keys == {out, raw}
    orders, stores = AssetKey(["topics", "orders"]), AssetKey(["files", "stores.json"])
    assert assets.asset_deps[out] == {orders, stores}
    assert assets.asset_deps[raw] == {orders}


def test_materializing_runs_the_pipeline_and_notes_its_rows(tmp_path: Path, file: str):
    assets = pipeline_assets(file, python=fake_python(tmp_path, COPIES))
    done = materialize([assets])
    assert done.success
    (event,) = done.asset_materializations_for_node("shop")[:1]
    assert event.metadata["rows"].value == 7


def test_a_pipeline_that_fails_fails_the_run(tmp_path: Path, file: str):
    assets = pipeline_assets(file, python=fake_python(tmp_path, FAILS))
    assert not materialize([assets], raise_on_error=False).success
