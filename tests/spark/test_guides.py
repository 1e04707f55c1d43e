"""What the guides to Spark show, run: every program and pipeline, and every command that ends.

In the session of the other tests, so that a command costs seconds.  Commands without an end get
`--once`; those that need another machine, a store or a service are named here with the reason.
"""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client, Message
from goqueue.client.kafka import KafkaClient
from goqueue.model.times import parse_time
from goqueue.spark.pipelines.job import PipelineJob
from goqueue.spark.pipelines.model import TopicSource
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline
from tests.unit.spark.pipelines.test_guide import FOUND, GUIDES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DEMO = GUIDES.parents[1] / "demo"
BLOCK = re.compile(r"^```(?:bash|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT_OUT = {
    "s3://": "an object store: tests/spark/lake_crashes",
    "--follow": "no end: tests/spark/test_sql.py",
    "pipeline serve": "no end: tests/spark/test_pipeline_serve.py",
    "pipeline list": "a service: tests/unit/cli/commands/pipeline/test_served.py",
    "pipeline status": "a service",
    "pipeline logs": "a service",
    "pipeline stop": "a service",
    "pipeline restart": "a service",
    "pipeline reset": "a service",
    "orders_dlq": "there are no bad rows in this example",
}
ORDER = {"id": 7, "store": "lahore", "customer": "a", "amount": 99.5, "price": 120.0}


@pytest.fixture
def http(client: KafkaClient) -> Iterator[Client]:
    with Client(client.http_url()) as found:
        yield found


def make_topics(http: Client, names: set[str], policy: str = "delete") -> None:
    settings = {"retention.ms": "-1", "cleanup.policy": policy}
    for name in names - {each.name for each in http.topics()}:
        http.create_topic(name, partitions=2, settings=settings)


@pytest.mark.parametrize(("page", "text"), FOUND, ids=[page for page, _ in FOUND])
def test_a_pipeline_of_a_guide_runs(
    spark: Any, broker: str, http: Client, tmp_path: Path, page: str, text: str
):
    pipeline = read_pipeline(text, variables={"GOQUEUE_BOOTSTRAP": broker, "DEMO_FOLDER": "."})
    topics = {
        name
        for source in pipeline.sources.values()
        if isinstance(source, TopicSource)
        for name in source.topics or [source.topic or ""]
    }
    make_topics(http, topics)
    shutil.copy(DEMO / "stores.json", tmp_path)
    places = Places(broker, tmp_path, "checkpoints", pipeline.name)
    for query in PipelineJob(spark, pipeline, places).start(lambda *_: None, once=True):
        query.awaitTermination()


def commands(page: str) -> list[str]:
    lines = [
        line.strip()
        for block in BLOCK.findall((GUIDES / page).read_text(encoding="utf-8"))
        for line in block.replace("\\\n", " ").splitlines()
    ]
    return [
        line
        for line in lines
        if line.startswith("goqueue pipeline ") and not any(each in line for each in LEFT_OUT)
    ]


@pytest.mark.parametrize("page", ["pipelines.md", "archives.md", "reports.md"])
def test_the_commands_of_a_guide_run(
    page: str,
    run_here: Callable[..., Any],
    client: KafkaClient,
    http: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOQUEUE_SERVER", client.http_url())
    at = "2026-01-31T12:30:00Z"
    at_ms = parse_time(at)
    names = {"orders", "clicks", "orders.large", "orders.eu", "bills"}
    make_topics(http, names)
    if page == "reports.md":
        make_topics(http, {"accounts"}, "compact")
        names.add("accounts")
    for name in names:
        value = json.dumps({**ORDER, "at": at})
        http.publish(name, [Message(value, key="a", timestamp=at_ms) for _ in range(4)])
    shutil.copy(DEMO / "orders.yaml", tmp_path)
    shutil.copy(DEMO / "orders.yaml", tmp_path / "new.yaml")
    shutil.copy(DEMO / "stores.json", tmp_path)
    monkeypatch.setenv("DEMO_FOLDER", str(tmp_path))
    found = commands(page)
    assert len(found) >= 6
    for line in found:
        words = shlex.split(line, comments=True)[1:]
        is_endless = words[1] == "archive" or words[1:3] == ["run", "orders.yaml"]
        if is_endless and "--once" not in words and "--dry-run" not in words:
            words.append("--once")
        done = run_here(*words)
        assert done.exit_code == 0, f"{line}\n{done.output}"


class Gauge:
    """Of whatever library counts."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def set(self, value: int) -> None:
        self.values.append(value)


def test_the_programs_of_the_guide_to_spark_run(
    spark: Any,
    broker: str,
    make_topic: Callable[..., str],
    fill: Callable[..., None],
    values_in: Callable[[str], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """One after the other, as a reader does; those about schemas are in test_typed_values.py."""
    orders, bills, totals = make_topic(2), make_topic(), make_topic()
    fill(orders, 0, ["a", "b"])
    fill(orders, 1, ["c"])
    monkeypatch.setattr("goqueue.spark.session", lambda: spark)
    gauge = Gauge()
    given: dict[str, Any] = {"gauge": gauge, "server": {"bootstrap.servers": broker}}
    places = {"127.0.0.1:9092": broker, "checkpoints/": f"{tmp_path}/"}
    places |= {'"orders"': f'"{orders}"', '"bills"': f'"{bills}"', '"totals"': f'"{totals}"'}
    places["addListener(Lag())"] = "addListener(listener := Lag())"
    for program in PROGRAM.findall((GUIDES / "spark.md").read_text(encoding="utf-8")):
        if '"value.format"' in program:
            continue
        for shown, here in places.items():
            program = program.replace(shown, here)
        exec(program, given)
        if "rows" not in given:
            read = given["orders"]
            given["rows"] = read.selectExpr("cast(key as string) as order_id", "offset")
            given["totals"] = (
                read.groupBy("partition")
                .count()
                .selectExpr("cast(partition as string) as key", "cast(count as string) as value")
            )
            assert values_in(bills) == []
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
    spark.streams.removeListener(given["listener"])
    found = sorted(values_in(bills))
    assert found[:3] == ["a", "b", "c"], "as they were"
    assert [json.loads(each)["order_id"] for each in found[3:]] == ["key-a", "key-b", "key-c"]
    assert sorted(values_in(totals)) == ["1", "2"]
    assert set(gauge.values) == {0}
