"""The queries of a pipeline: when they rest, what parking remembers, when they are due."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.reading import read_pipeline
from goqueue.spark.runtime.restarting_query import RestartingQuery
from goqueue.spark.service.running import RunningPipeline, trigger_seconds
from goqueue.spark.service.turns import TURN_SECONDS

pytest.importorskip("pyspark")

FILE = """
name: orders
trigger: 10s
sources:
  orders: {topic: orders}
  prices: {topic: prices, read: once}
sinks:
  a: {topic: a, from: orders}
  b: {topic: b, from: orders, trigger: 4s}
"""


class StreamQuery:
    """Spark's, as the test says."""

    def __init__(self) -> None:
        self.name = "orders.a"
        self.isActive = True
        self.status = {"message": "Waiting for next trigger", "isTriggerActive": False}
        self.batch: int | None = None
        self.latest, self.end = 5, 5
        self.is_stopped = False

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802
        if self.batch is None:
            return None
        source = {
            "endOffset": f'{{"orders": {{"0": {self.end}}}}}',
            "latestOffset": f'{{"orders": {{"0": {self.latest}}}}}',
        }
        return {"batchId": self.batch, "numInputRows": 3, "sources": [source]}

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802
        return [each for each in [self.lastProgress] if each is not None]

    def exception(self) -> None: ...

    def awaitTermination(self) -> None: ...  # noqa: N802

    def stop(self) -> None:
        self.is_stopped = True


class World:
    def __init__(self, text: str = FILE) -> None:
        self.now = 100.0
        self.started: list[StreamQuery] = []
        pipeline = read_pipeline(text, {})
        places = Places("b:9092", Path("/p"), "checkpoints", "orders")
        queries = [RestartingQuery(self._start) for _ in pipeline.sinks]
        self.running = RunningPipeline(queries, pipeline, places, lambda: self.now)

    def _start(self) -> Any:
        self.started.append(StreamQuery())
        return self.started[-1]


@pytest.fixture
def world() -> World:
    return World()


def test_it_rests_when_all_its_queries_have_read_everything(world: World):
    first, second = world.started
    world.running.look()
    assert world.running.turn("orders").rests_since is None, "nobody knows how far it is"
    first.batch = second.batch = 0
    second.latest = 9
    world.now = 101.0
    world.running.look()
    assert world.running.turn("orders").rests_since is None
    second.batch, second.latest = 1, 5
    world.now = 102.0
    world.running.look()
    world.now = 110.0
    world.running.look()
    turn = world.running.turn("orders")
    assert (turn.queries, turn.since, turn.rests_since, turn.has_moved) == (2, 100.0, 102.0, True)


def test_a_parked_pipeline_remembers_where_it_is_and_what_it_counted(world: World):
    for each in world.started:
        each.batch = 0
    world.running.look()
    world.running.park()
    assert [each.is_stopped for each in world.started] == [True, True]
    parked = world.running.position()
    assert parked is not None
    assert parked.reached == ({"orders": {"0": 5}}, {"orders": {"0": 5}})
    assert [each.subscription.names for each in parked.sources] == [("orders",)]  # type: ignore[union-attr]
    assert [(each.state, each.rows, each.lag) for each in world.running.look()] == [
        ("parked", 3, 0),
        ("parked", 3, 0),
    ]
    world.running.note_news(8)
    assert [each.lag for each in world.running.look()] == [8, 8]
    assert world.running.failure() is None


def test_a_woken_pipeline_begins_a_turn_and_goes_on_counting(world: World):
    for each in world.started:
        each.batch = 0
    world.running.look()
    world.running.park()
    world.now = 200.0
    world.running.wake()
    assert world.running.position() is None
    turn = world.running.turn("orders")
    assert (turn.since, turn.rests_since, turn.has_moved) == (200.0, None, False)
    for each in world.started[2:]:
        each.batch = 1
    assert [each.rows for each in world.running.look()] == [6, 6]


def test_one_that_was_just_woken_does_not_rest_on_what_it_said_before(world: World):
    for each in world.started:
        each.batch = 0
    world.running.look()
    world.running.park()
    world.running.look()
    world.now = 200.0
    world.running.wake()
    for each in world.started[2:]:  # Spark still starts it: there is no report
        each.status = {"message": "Initializing sources", "isTriggerActive": False}
    world.now = 205.0
    world.running.look()
    assert world.running.turn("orders").rests_since is None
    for each in world.started[2:]:
        each.batch = 1
    world.running.look()
    world.now = 210.0
    world.running.look()
    assert world.running.turn("orders").rests_since == 205.0


def test_one_that_found_nothing_new_rests_when_its_turn_is_over(world: World):
    for each in world.started:
        each.batch = 0
    world.running.look()
    world.running.park()
    world.now = 200.0
    world.running.wake()
    for each in world.started[2:]:
        each.batch = 0
    world.now = 200.0 + TURN_SECONDS
    world.running.look()
    turn = world.running.turn("orders")
    assert (turn.rests_since, turn.has_moved) == (200.0, False)


def test_a_first_look_that_comes_late_counts(world: World):
    for each in world.started:
        each.batch = 7
    world.now = 140.0
    world.running.look()
    turn = world.running.turn("orders")
    assert (turn.rests_since, turn.has_moved) == (140.0, True)


def test_it_is_due_when_its_shortest_trigger_has_passed_since_its_turn_began(world: World):
    assert trigger_seconds(read_pipeline(FILE, {})) == 4.0
    assert not world.running.is_due()
    world.now += 4.0
    assert world.running.is_due()


@pytest.mark.parametrize(
    "change",
    [
        ("trigger: 4s", "trigger: available-now"),
        ("prices, read: once", "p, options: {bootstrap.servers: 'x:1'}"),
    ],
)
def test_one_with_an_end_or_of_two_clusters_is_never_parked(change: tuple[str, str]):
    world = World(FILE.replace(*change))
    for each in world.started:
        each.batch = 0
    world.running.look()
    assert world.running.turn("orders").rests_since is None
    assert not world.running.turn("orders").has_moved
