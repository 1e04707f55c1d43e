"""What views stand on."""

import pytest

from goqueue.spark.pipelines.dependencies import sources_of
from goqueue.spark.pipelines.reading import read_pipeline

PIPELINE = read_pipeline(
    """
name: shop
sources:
  orders: {topic: orders, schema: "id bigint, stores string"}
  stores: {files: stores.json, format: json, schema: "store string"}
  clicks: {topic: clicks}
steps:
  located: select orders.stores, id from Orders join `stores` using (store)
  counted: "select count(*) from located, clicks group by 1"
  alone: select stores from orders
sinks:
  out: {topic: out, from: located}
""",
    variables={},
)


@pytest.mark.parametrize(
    ("view", "sources"),
    [
        ("orders", ["orders"]),
        ("located", ["orders", "stores"]),
        ("counted", ["orders", "stores", "clicks"]),
        ("alone", ["orders"]),
        ("nobody", []),
    ],
)
def test_sources_are_found_through_steps_and_not_by_names_of_columns(view: str, sources: list[str]):
    assert sources_of(PIPELINE, view) == sources
