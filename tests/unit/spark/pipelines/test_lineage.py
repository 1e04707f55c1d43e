"""Where a sink's rows come from and go to."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.spark.pipelines.lineage import Dataset, lineage_of
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline

PIPELINE = read_pipeline(
    """
name: shop
sources:
  orders: {topics: [orders.eu, orders.us], schema: "id bigint"}
  stores: {files: stores.json, format: json}
steps:
  located: select id from orders join stores using (store)
sinks:
  out: {topic: out, from: located}
  kept: {archive: "s3://bucket/lake", from: orders}
  table: {table: lake/people, from: located, keys: [id]}
  files: {files: out/files, from: located}
  shown: {console: 5, from: located}
""",
    variables={},
)
PLACES = Places("queue:9092,other:9092", Path("/etc/shop"), "checkpoints", "shop")
EU = Dataset("kafka://queue:9092", "orders.eu", [("id", "bigint")])
US = Dataset("kafka://queue:9092", "orders.us", [("id", "bigint")])
STORES = Dataset("file", "/etc/shop/stores.json")


def frame(**columns: str) -> Any:
    fields = [
        SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda kind=kind: kind))
        for name, kind in columns.items()
    ]
    return SimpleNamespace(schema=SimpleNamespace(fields=fields))


@pytest.mark.parametrize(
    ("sink", "outputs"),
    [
        ("out", [("kafka://queue:9092", "out")]),
        ("kept", [("s3://bucket", "lake/orders.eu"), ("s3://bucket", "lake/orders.us")]),
        ("table", [("file", "/etc/shop/lake/people")]),
        ("files", [("file", "/etc/shop/out/files")]),
        ("shown", []),
    ],
)
def test_places_have_the_names_that_others_give_them(sink: str, outputs: list[tuple[str, str]]):
    found = lineage_of(
        PIPELINE, PIPELINE.sinks[sink], PLACES, {"orders": frame(id="bigint")}, frame(n="int")
    )
    assert found.inputs == ([EU, US] if sink == "kept" else [EU, US, STORES])
    assert [(each.namespace, each.name) for each in found.outputs] == outputs
    assert all(each.columns == [("n", "int")] for each in found.outputs)
