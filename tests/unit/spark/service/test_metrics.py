"""Pipelines for Prometheus."""

import urllib.request

import msgspec

from goqueue.spark.runtime.progress import Progress
from goqueue.spark.service.alerts import Alert
from goqueue.spark.service.board import Standing
from goqueue.spark.service.metrics import PipelineCollector, serve_metrics

QUERY = Progress(
    "orders.o",
    "running",
    rows=7,
    rows_per_second=3.5,
    lag=2,
    lag_ms=2500,
    batch_ms=1500,
    watermark="1970-01-01T00:01:00.000Z",
    state_rows=12,
    late_rows=3,
    unmet={"a.b": 1},
)
STANDING = Standing(
    "orders",
    "running",
    "orders.yaml",
    0,
    restarts=4,
    queries=[QUERY],
    alerts=[Alert("orders.o", "stale")],
)


def test_the_endpoint_tells_how_each_pipeline_is():
    server = serve_metrics(lambda: [STANDING], "127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    finally:
        server.shutdown()
    for expected in (
        'goqueue_pipeline_up{pipeline="orders",state="running"} 1.0',
        'goqueue_pipeline_restarts_total{pipeline="orders"} 4.0',
        'goqueue_pipeline_rows_total{query="orders.o"} 7.0',
        'goqueue_pipeline_lag_rows{query="orders.o"} 2.0',
        'goqueue_pipeline_lag_seconds{query="orders.o"} 2.5',
        'goqueue_pipeline_batch_seconds{query="orders.o"} 1.5',
        'goqueue_pipeline_watermark_timestamp_seconds{query="orders.o"} 60.0',
        'goqueue_pipeline_state_rows{query="orders.o"} 12.0',
        'goqueue_pipeline_late_rows_total{query="orders.o"} 3.0',
        'goqueue_pipeline_alert{alert="stale",pipeline="orders",query="orders.o"} 1.0',
        'goqueue_pipeline_parked{pipeline="orders"} 0.0',
        'goqueue_pipeline_unmet_rows_total{expectation="a.b",query="orders.o"} 1.0',
    ):
        assert expected in lines


def test_a_parked_pipeline_is_up():
    queries = [msgspec.structs.replace(QUERY, state="parked")]
    parked = msgspec.structs.replace(STANDING, queries=queries)
    samples = {
        (sample.name, sample.labels.get("pipeline")): sample.value
        for family in PipelineCollector(lambda: [parked]).collect()
        for sample in family.samples
    }
    assert samples["goqueue_pipeline_up", "orders"] == 1.0
    assert samples["goqueue_pipeline_parked", "orders"] == 1.0
