"""Rows that are not as a pipeline expects: dropped, kept, set aside, fatal; and counted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.pipelines.tree import PipelineProblems
from goqueue.spark.runtime.causes import JobFailed
from goqueue.spark.runtime.job_runner import Runner
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.runtime.stop import Stop

PIPELINE = """
name: checked
trigger: available-now
sources:
  orders:
    topic: {topic}
    schema: id bigint, store string, amount bigint
    expect:
      has_store: {{sql: store is not null, otherwise: {{topic: {topic}.lost, partitions: 1}}}}
      small: {{sql: amount < 1000, otherwise: keep}}
steps:
  paid:
    sql: select id, amount, _key from orders
    expect:
      positive: {{sql: amount > 0, otherwise: drop}}
      known: {known}
sinks:
  out: {{from: paid, topic: {topic}.out, partitions: 1}}
"""


@pytest.fixture
def http(client) -> Iterator[Client]:
    with Client(client.http_url()) as found:
        yield found


@pytest.fixture
def run(spark, broker, tmp_path: Path):
    def run(text: str) -> list[Progress]:
        pipeline = read_pipeline(text, {})
        places = Places(broker, tmp_path, pipeline.checkpoints, pipeline.name)
        running = Runner(spark, Stop(), lambda _: None, stop_seconds=30)
        queries = PipelineJob(spark, pipeline, places).start(lambda *_: None)
        return list(running.streams(queries))

    return run


def order(number: int, store: str | None, amount: int | None) -> str:
    return json.dumps({"id": number, "store": store, "amount": amount})


ORDERS = [
    order(0, "a", 5),
    order(1, None, 7),
    order(2, "a", -1),
    order(3, "b", None),  # a condition that is null does not hold
    order(4, "b", 5000),
]


def test_rows_are_dropped_kept_or_set_aside_and_counted(run, fill, topic, http):
    fill(topic, 0, ORDERS)
    ended = {each.name: each for each in run(PIPELINE.format(topic=topic, known="id >= 0"))}
    assert [json.loads(each.value) for each in http.read(f"{topic}.out")] == [
        {"id": 0, "amount": 5},
        {"id": 4, "amount": 5000},
    ]
    (lost,) = http.read(f"{topic}.lost")
    assert json.loads(lost.value) == {"id": 1, "store": None, "amount": 7}
    assert dict(lost.headers) == {
        "gq-expectation": b"orders.has_store",
        "gq-source-topic": topic.encode(),
        "gq-source-partition": b"0",
        "gq-source-offset": b"1",
    }
    assert ended["checked.out"].unmet == {
        "orders.has_store": 1,
        "orders.small": 2,
        "paid.positive": 2,
        "paid.known": 0,
    }
    assert ended["checked.orders.has_store"].rows == len(ORDERS)


def test_what_must_hold_stops_the_pipeline_and_shows_the_row(run, fill, topic):
    fill(topic, 0, ORDERS)
    with pytest.raises(JobFailed) as caught:
        run(PIPELINE.format(topic=topic, known="id < 4"))
    assert "paid.known: expected id < 4, and there is" in str(caught.value)
    assert '"id":4' in str(caught.value)


def test_a_condition_that_spark_does_not_understand_is_told_with_its_place(run, fill, topic):
    fill(topic, 0, ORDERS)
    with pytest.raises(PipelineProblems) as caught:
        run(PIPELINE.format(topic=topic, known="idd > 4"))
    assert "steps.paid.expect.known" in str(caught.value)
    assert "idd" in str(caught.value)
