"""OpenLineage events, as its own client writes them."""

import json
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("pyspark", reason="needs goqueue[spark]")
pytest.importorskip("openlineage.client", reason="needs goqueue[lineage]")

from openlineage.client.serde import Serde

from goqueue.spark.pipelines.lineage import Dataset, Lineage
from goqueue.spark.runtime.lineage import LineageListener, is_wanted

LINEAGE = Lineage(
    [Dataset("kafka://queue:9092", "orders", [("id", "bigint")])],
    [Dataset("s3://bucket", "lake/orders")],
)


class Collected:
    """A client whose transport is a list; it may fail."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.failures = 0

    def emit(self, event: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("away")
        self.events.append(json.loads(Serde.to_json(event)))


@pytest.fixture
def client() -> Collected:
    return Collected()


@pytest.fixture
def listener(client: Collected) -> LineageListener:
    made = LineageListener(client)
    made.declare("shop.out", LINEAGE)
    return made


def run(listener: LineageListener, name: str | None, problem: str | None = None) -> str:
    run_id = str(uuid4())
    listener.onQueryStarted(SimpleNamespace(name=name, runId=run_id))
    listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(runId=run_id)))
    listener.onQueryTerminated(SimpleNamespace(runId=run_id, exception=problem))
    listener.close()
    return run_id


def test_a_query_has_a_start_and_an_end_with_its_datasets(
    client: Collected, listener: LineageListener
):
    run_id = run(listener, "shop.out")
    start, end = client.events
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    for each in (start, end):
        assert each["run"]["runId"] == run_id
        assert (each["job"]["namespace"], each["job"]["name"]) == ("goqueue", "shop.out")
        (read,), (written,) = each["inputs"], each["outputs"]
        assert (read["namespace"], read["name"]) == ("kafka://queue:9092", "orders")
        fields = read["facets"]["schema"]["fields"]
        assert [(field["name"], field["type"]) for field in fields] == [("id", "bigint")]
        assert (written["namespace"], written["name"]) == ("s3://bucket", "lake/orders")
        assert each["job"]["facets"]["jobType"]["processingType"] == "STREAMING"


def test_a_failure_says_why(client: Collected, listener: LineageListener):
    run(listener, "shop.out", "no room")
    assert client.events[-1]["eventType"] == "FAIL"
    assert client.events[-1]["run"]["facets"]["errorMessage"]["message"] == "no room"


def test_queries_of_others_are_left_alone(client: Collected, listener: LineageListener):
    run(listener, "somebody's")
    assert client.events == []


def test_a_server_that_is_away_costs_its_events_only(client: Collected, listener: LineageListener):
    client.failures = 1
    run(listener, "shop.out")
    assert [each["eventType"] for each in client.events] == ["COMPLETE"]


def test_it_is_wanted_where_openlineages_variables_are_set():
    assert is_wanted({"OPENLINEAGE_URL": "http://marquez:5000"})
    assert not is_wanted({"OPENLINEAGE_URL": ""})
