"""What Spark Connect cannot run is named, each sink by itself."""

from goqueue.spark.pipelines.connecting import find_unconnected
from goqueue.spark.pipelines.reading import read_pipeline

FILE = """
name: orders
sources:
  orders: {topic: orders, schema: "id bigint, price double"}
steps:
  totals: select id, sum(price) as total from orders group by id
sinks:
  append: {topic: a, from: orders}
  files: {files: f, from: orders}
  update: {topic: b, from: totals, mode: update, key: id}
  archive: {archive: lake, from: orders}
  table: {table: t, from: orders, keys: [id]}
  console: {console: 5, from: orders}
"""


def test_sinks_that_the_driver_commits_are_refused():
    found = {each.path: str(each) for each in find_unconnected(read_pipeline(FILE, {}))}
    assert list(found) == ["sinks.update", "sinks.archive", "sinks.table", "sinks.console"]
    assert "in mode update" in found["sinks.update"]
    assert "--master spark://HOST:PORT" in found["sinks.archive"]
