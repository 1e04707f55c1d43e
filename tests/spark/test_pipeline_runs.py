"""Declared pipelines over a running broker, in the tests' own session."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from goqueue.client import Client
from goqueue.spark.lake import open_table
from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.runtime.causes import JobFailed
from goqueue.spark.runtime.job_runner import Runner
from goqueue.spark.runtime.stop import Stop

PIPELINE = """
name: orders
trigger: available-now
sources:
  orders:
    topic: {topic}
    schema: id bigint, store string, amount bigint, at timestamp
    watermark: {{column: at, delay: 1 hour}}
    max_messages: 70
    bad: {bad}
  stores:
    files: stores.json
    format: json
    schema: store string, city string
steps:
  per_minute: |
    select window.start as minute, store, count(*) as orders, sum(amount) as amount
    from orders group by window(at, '1 minute'), store
  large: |
    select id, city, amount, _partition, at
    from orders join stores using (store) where amount >= 50
sinks:
  totals:
    from: per_minute
    topic: {topic}.totals
    key: concat(store, '@', minute)
    mode: update
    partitions: 2
  large:
    from: large
    topic: {topic}.large
    key: id
    timestamp: at
    headers: {{city: city}}
    partitions: 3
"""


@pytest.fixture
def http(client) -> Iterator[Client]:
    with Client(client.http_url()) as found:
        yield found


@pytest.fixture
def run(spark, broker, tmp_path: Path):
    """`run(text)`: what is there is worked off; gives the rows read by each sink."""

    def run(text: str, show=lambda sink, batch, rows: None) -> dict[str, int]:
        pipeline = read_pipeline(text, {})
        places = Places(broker, tmp_path, pipeline.checkpoints, pipeline.name)
        running = Runner(spark, Stop(), lambda _: None, stop_seconds=30)
        ended = running.streams(PipelineJob(spark, pipeline, places).start(show))
        assert all(each.state == "finished" for each in ended)
        return {each.name: each.rows for each in ended}

    return run


@pytest.fixture
def stores(tmp_path: Path) -> None:
    rows = [{"store": f"s{each}", "city": f"c{each}"} for each in range(3)]
    (tmp_path / "stores.json").write_text("\n".join(map(json.dumps, rows)))


def orders(start: int, end: int) -> list[str]:
    return [
        json.dumps(
            {
                "id": each,
                "store": f"s{each % 3}",
                "amount": each,
                "at": f"2026-01-01T00:{each % 5:02d}:00Z",
            }
        )
        for each in range(start, end)
    ]


def latest(http: Client, topic: str) -> dict[str, dict]:
    """The last value of each key, as whoever keeps a table of a topic has it."""
    messages = sorted(http.read(topic), key=lambda each: (each.partition, each.offset))
    return {(each.key or b"").decode(): json.loads(each.value or b"") for each in messages}


def test_sinks_get_every_row_once_however_often_it_runs(run, fill, topic, http, stores):
    text = PIPELINE.format(topic=topic, bad="fail")
    fill(topic, 0, orders(0, 60))
    fill(topic, 1, orders(60, 100))
    assert run(text) == {"orders.totals": 100, "orders.large": 100}
    fill(topic, 1, orders(100, 130))
    assert run(text) == {"orders.totals": 30, "orders.large": 30}

    totals = latest(http, f"{topic}.totals")
    assert len(totals) == 15
    assert sum(each["orders"] for each in totals.values()) == 130
    assert sum(each["amount"] for each in totals.values()) == sum(range(130))
    assert totals["s0@2026-01-01 00:00:00"]["minute"] == "2026-01-01T00:00:00.000Z"

    large = list(http.read(f"{topic}.large"))
    assert sorted(int(each.key) for each in large) == list(range(50, 130))
    (one,) = [each for each in large if each.key == b"77"]
    assert json.loads(one.value) == {
        "id": 77,
        "city": "c2",
        "amount": 77,
        "at": "2026-01-01T00:02:00.000Z",
    }
    assert one.headers == (("city", b"c2"),)
    assert one.timestamp == 1767225720000


def test_a_batch_that_spark_does_not_know_to_be_done_is_not_written_twice(
    run, fill, topic, http, stores, tmp_path
):
    """As a crash between the broker's decision and Spark's own note of it leaves things."""
    text = PIPELINE.format(topic=topic, bad="fail")
    fill(topic, 0, orders(0, 100))
    run(text)
    written = {name: len(list(http.read(f"{topic}.{name}"))) for name in ("totals", "large")}
    for name in written:
        commits = tmp_path / "checkpoints" / "orders" / name / "commits"
        last = max(int(each.name) for each in commits.iterdir() if each.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
    fill(topic, 1, orders(100, 110))
    run(text)
    found = {name: len(list(http.read(f"{topic}.{name}"))) for name in written}
    assert found["large"] == written["large"] + 10
    assert found["totals"] == written["totals"] + 10  # of other stores and minutes each
    assert sum(each["orders"] for each in latest(http, f"{topic}.totals").values()) == 110


def test_files_and_the_console(run, spark, fill, topic, tmp_path):
    text = f"""
    name: shown
    trigger: available-now
    sources: {{lines: {{topic: {topic}}}}}
    sinks:
      kept: {{files: kept, from: lines, partition_by: [_partition]}}
      shown: {{console: 3, from: lines}}
    """
    shown = []
    fill(topic, 0, map(str, range(50)))
    run(text, lambda *told: shown.append(told))
    run(text)
    kept = spark.read.parquet(str(tmp_path / "kept"))
    assert sorted(int(each.value) for each in kept.collect()) == list(range(50))
    assert (tmp_path / "kept" / "_partition=0").is_dir()
    ((sink, batch, rows),) = shown
    assert (sink, batch, len(rows)) == ("shown", 0, 3)
    assert {each["value"] for each in rows} <= {str(each) for each in range(50)}


def test_bad_values_stop_it_with_their_place(run, fill, topic, stores):
    fill(topic, 0, [*orders(0, 2), '{"id": "many"}'])
    with pytest.raises(JobFailed) as caught:
        run(PIPELINE.format(topic=topic, bad="fail"))
    assert f"{topic}-0 offset 2: the value does not fit the schema: " in str(caught.value)
    assert "\tat " not in str(caught.value)


def test_bad_values_go_to_a_topic_of_theirs(run, fill, topic, http, stores):
    bad = f"{topic}.bad"
    fill(topic, 0, [*orders(0, 60), '{"id": "many"}'])
    fill(topic, 1, ["no json", *orders(60, 70)])
    run(PIPELINE.format(topic=topic, bad=f"{{topic: {bad}, partitions: 1}}"))
    letters = {each.value: dict(each.headers) for each in http.read(bad)}
    assert letters == {
        b'{"id": "many"}': {
            "gq-source-topic": topic.encode(),
            "gq-source-partition": b"0",
            "gq-source-offset": b"60",
        },
        b"no json": {
            "gq-source-topic": topic.encode(),
            "gq-source-partition": b"1",
            "gq-source-offset": b"0",
        },
    }
    assert sum(each["orders"] for each in latest(http, f"{topic}.totals").values()) == 70


@pytest.mark.parametrize(("bad", "orders_counted"), [("drop", 3), ("keep", 4)])
def test_bad_values_may_be_dropped_or_kept(
    run, fill, topic, http, stores, bad: str, orders_counted: int
):
    text = f"""
    name: counts
    trigger: available-now
    sources:
      orders: {{topic: {topic}, schema: "id bigint, store string", bad: {bad}}}
    steps: {{counted: select count(*) as n from orders}}
    sinks: {{out: {{topic: {topic}.out, from: counted, mode: complete, partitions: 1}}}}
    """
    fill(topic, 0, [*orders(0, 3), '{"id": "many"}'])
    run(text)
    assert [json.loads(each.value) for each in http.read(f"{topic}.out")] == [{"n": orders_counted}]


def test_streams_join_within_their_watermarks(run, fill, make_topic, http):
    left, right = make_topic(1), make_topic(1)
    text = f"""
    name: joined
    trigger: available-now
    sources:
      orders:
        topic: {left}
        schema: id bigint, at timestamp
        watermark: {{column: at, delay: 10 minutes}}
      payments:
        topic: {right}
        schema: order_id bigint, paid_at timestamp
        watermark: {{column: paid_at, delay: 10 minutes}}
    steps:
      paid: |
        select id, at, paid_at from orders join payments
        on id = order_id and paid_at between at and at + interval 5 minutes
    sinks:
      out: {{topic: {left}.paid, from: paid, key: id, partitions: 1}}
    """
    at = "2026-01-01T00:{:02d}:00Z"
    fill(left, 0, [json.dumps({"id": each, "at": at.format(each)}) for each in range(10)])
    payments = [{"order_id": each, "paid_at": at.format(each + each % 3 * 4)} for each in range(10)]
    fill(right, 0, map(json.dumps, payments))
    run(text)
    found = sorted(int(each.key) for each in http.read(f"{left}.paid"))
    assert found == [each for each in range(10) if each % 3 < 2]


def test_an_archive_beside_the_other_sinks(run, spark, fill, topic, tmp_path):
    text = f"""
    name: kept
    trigger: available-now
    sources: {{orders: {{topic: {topic}, schema: "id bigint, store string"}}}}
    sinks:
      plain: {{archive: lake, from: orders}}
      decoded: {{archive: tables, from: orders, format: delta, decode: true}}
    """
    fill(topic, 0, orders(0, 30))
    assert run(text) == {"kept.plain": 30, "kept.decoded": 30}
    fill(topic, 1, orders(30, 40))
    assert run(text) == {"kept.plain": 10, "kept.decoded": 10}

    plain = open_table(
        "parquet", tmp_path / "lake" / topic, date_column="date", time_column="timestamp"
    )
    paths = [str(tmp_path / "lake" / topic / each.path) for each in plain.files()]
    values = spark.read.parquet(*paths).select("value").collect()
    assert sorted(json.loads(bytes(each.value))["id"] for each in values) == list(range(40))
    decoded = DeltaTable(str(tmp_path / "tables" / topic)).to_pyarrow_table(columns=["id", "store"])
    assert sorted(decoded.column("id").to_pylist()) == list(range(40))
