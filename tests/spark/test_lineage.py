"""OpenLineage events of a pipeline, as its client sends them to a server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline

pytestmark = pytest.mark.slow

PIPELINE = """
name: shop
sources: {{orders: {{topic: {topic}, schema: "id bigint"}}}}
steps: {{twice: select id * 2 as twice from orders}}
sinks:
  out: {{topic: {topic}.out, from: twice, partitions: 1}}
  kept: {{archive: lake, from: orders, format: delta}}
"""


class Marquez(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.events: list[Any] = []


class Handler(BaseHTTPRequestHandler):
    server: Marquez  # type: ignore[mutable-override]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.events.append(json.loads(body))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def marquez(monkeypatch: pytest.MonkeyPatch) -> Iterator[Marquez]:
    with Marquez() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
        yield server
        server.shutdown()
        thread.join()


def test_a_pipeline_tells_where_its_rows_come_from_and_go_to(
    spark, broker, fill, topic, marquez: Marquez, eventually, tmp_path: Path
):
    fill(topic, 0, ['{"id": 1}', '{"id": 2}'])
    pipeline = read_pipeline(PIPELINE.format(topic=topic), variables={})
    places = Places(broker, tmp_path, "checkpoints", pipeline.name)
    try:
        for query in PipelineJob(spark, pipeline, places).start(lambda *_: None, once=True):
            query.awaitTermination()
        eventually(lambda: len(marquez.events) >= 4)
    finally:
        listener = vars(spark).pop("_goqueue_lineage")
        spark.streams.removeListener(listener)
        listener.close()
    states: dict[str, list[str]] = {}
    for each in marquez.events:
        states.setdefault(each["job"]["name"], []).append(each["eventType"])
    assert states == {"shop.out": ["START", "COMPLETE"], "shop.kept": ["START", "COMPLETE"]}
    written = {
        (each["namespace"], each["name"]) for event in marquez.events for each in event["outputs"]
    }
    assert written == {
        (f"kafka://{broker}", f"{topic}.out"),
        ("file", str(tmp_path / "lake" / topic)),
    }
    (read,) = marquez.events[0]["inputs"]
    assert (read["namespace"], read["name"]) == (f"kafka://{broker}", topic)
    assert ("id", "bigint") in {
        (field["name"], field["type"]) for field in read["facets"]["schema"]["fields"]
    }
