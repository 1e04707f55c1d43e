"""The service, with queries and a board of the test's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from goqueue.client.errors import ServerUnreachable
from goqueue.spark.pipelines.places import Places
from goqueue.spark.pipelines.tree import PipelineProblems, Problem
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.service.board import Command, Event, Standing
from goqueue.spark.service.files import Folder
from goqueue.spark.service.news import Parked
from goqueue.spark.service.running import read_start
from goqueue.spark.service.service import TELL_SECONDS, Clock, PipelineService
from goqueue.spark.service.turns import Live
from goqueue.spark.service.webhooks import Notice

SOUND = "name: {name}\nsources: {{lines: {{topic: t}}}}\nsinks: {{o: {{topic: o, from: lines}}}}\n"


class Queries:
    """Of one pipeline; the test says how they are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.archives: list[Any] = []
        self.places = Places("", Path(), "checkpoints", name)
        self.states = ["running"]
        self.failed: str | None = None
        self.rows = 0
        self.is_stopped = False
        self.queries = 1
        self.rests = False
        self.is_parked = False
        self.wakes = 0
        self.due = True
        self.objection: Exception | None = None
        self.news: int | None = None

    def look(self) -> list[Progress]:
        return [
            Progress(f"{self.name}.o", each, rows=self.rows)  # type: ignore[arg-type]
            for each in self.states
        ]

    def failure(self) -> str | None:
        return self.failed

    def stop(self) -> None:
        self.is_stopped = True

    def turn(self, name: str) -> Live:
        return Live(name, self.queries, 0.0, rests_since=-10.0 if self.rests else None)

    def position(self) -> Parked | None:
        return Parked((), ()) if self.is_parked else None

    def note_news(self, messages: int | None) -> None:
        self.news = messages

    def is_due(self) -> bool:
        return self.due

    def park(self) -> None:
        self.is_parked = True

    def wake(self) -> None:
        if self.objection is not None:
            raise self.objection
        self.wakes += 1
        self.is_parked = False


class Notices:
    """A board in memory, which may be away."""

    def __init__(self) -> None:
        self.standings: dict[str, Standing] = {}
        self.events: list[Event] = []
        self.asked: list[Command] = []
        self.is_away = False
        self.told = 0

    def _check(self) -> None:
        if self.is_away:
            raise ServerUnreachable("away")

    def find_stopped(self) -> set[str]:
        return {name for name, each in self.standings.items() if each.state == "stopped"}

    def tell(self, standing: Standing) -> None:
        self._check()
        self.told += 1
        self.standings[standing.name] = standing

    def forget(self, name: str) -> None:
        self._check()
        del self.standings[name]

    def note(self, event: Event) -> None:
        self._check()
        self.events.append(event)

    def commands(self) -> list[Command]:
        self._check()
        asked, self.asked = self.asked, []
        return asked


class Hands(Clock):
    """A clock that is set by hand."""

    now = 0.0

    def steady(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)


class World:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.board = Notices()
        self.clock = Hands()
        self.started: list[Queries] = []
        self.objection: Exception | None = None
        self.sent: list[tuple[str, Notice]] = []
        self.news: dict[str, int] = {}
        self.service = PipelineService(
            Folder(path, {}),
            self._start,
            self.board,
            self.clock,
            lambda url, notice: self.sent.append((url, notice)),
            look_for_news=self._look_for_news,
            queries_max=2,
        )

    def _start(self, pipeline: Any, file: Path) -> Queries:
        if self.objection is not None:
            raise self.objection
        self.started.append(Queries(pipeline.name))
        return self.started[-1]

    def _look_for_news(self, parked: Mapping[str, Parked]) -> dict[str, int]:
        return {name: count for name, count in self.news.items() if name in parked}

    def write(self, name: str, text: str | None = None) -> None:
        (self.path / f"{name}.yaml").write_text(text or SOUND.format(name=name))

    def step(self, seconds: float = 1.0) -> None:
        self.clock.now += seconds
        self.service.step()

    def state(self, name: str = "orders") -> str:
        return self.board.standings[name].state

    def ask(self, verb: Any, name: str = "orders") -> None:
        self.board.asked.append(Command(name, verb))

    def history(self) -> list[str]:
        return [each.event for each in self.board.events]


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path)
    found.write("orders")
    found.step()
    return found


def test_files_that_are_there_and_files_that_come_are_started(world: World):
    world.write("stores")
    world.step()
    assert [each.name for each in world.started] == ["orders", "stores"]
    assert {world.state(), world.state("stores")} == {"running"}


def test_a_failed_query_ends_its_pipeline_which_is_started_again(world: World):
    world.started[0].failed = "orders.o: no room"
    world.step()
    assert world.started[0].is_stopped
    assert world.state() == "retrying"
    assert world.board.standings["orders"].problem == "orders.o: no room"
    world.step(2.0)
    assert (world.state(), len(world.started)) == ("running", 2)
    assert world.board.standings["orders"].restarts == 1
    assert world.history() == ["started", "failed", "started"]


def test_a_start_that_fails_is_tried_again_and_one_that_cannot_work_is_not(world: World):
    world.objection = ServerUnreachable("no broker")
    world.write("stores")
    world.step()
    assert world.state("stores") == "retrying"
    world.objection = PipelineProblems([Problem("steps.x", "no such column")])
    world.step(2.0)
    assert world.state("stores") == "invalid"
    assert "steps.x: no such column" in (world.board.standings["stores"].problem or "")
    world.objection = None
    world.step(1000.0)
    assert world.state("stores") == "invalid"


def test_operators_stop_and_restart(world: World):
    world.ask("stop")
    world.step()
    assert (world.state(), world.started[0].is_stopped) == ("stopped", True)
    world.ask("restart")
    world.ask("stop", "nobody")
    world.step()
    assert (world.state(), len(world.started)) == ("running", 2)
    world.ask("restart")
    world.step()
    assert (len(world.started), world.started[1].is_stopped) == (3, True)


def test_what_was_stopped_stays_so_in_the_next_service(world: World):
    world.ask("stop")
    world.step()
    again = PipelineService(Folder(world.path, {}), world._start, world.board, world.clock)
    again.load()
    again.step()
    assert (world.state(), len(world.started)) == ("stopped", 1)


def test_reset_sets_the_checkpoints_aside(world: World):
    kept = world.path / "checkpoints" / "orders" / "o"
    kept.mkdir(parents=True)
    world.ask("reset")
    world.step()
    assert not kept.exists()
    (aside,) = (world.path / "checkpoints").iterdir()
    assert (aside / "o").is_dir()
    assert (world.state(), len(world.started)) == ("running", 2)


def test_a_file_that_goes_takes_its_pipeline_along(world: World):
    (world.path / "orders.yaml").unlink()
    world.step()
    assert world.started[0].is_stopped
    assert world.board.standings == {}
    assert world.history()[-1] == "removed"


def test_a_changed_file_is_adopted(world: World):
    world.write("orders", SOUND.format(name="orders") + "description: another\n")
    world.step()
    assert world.started[0].is_stopped
    assert (world.state(), len(world.started)) == ("running", 2)
    assert world.history() == ["started", "changed", "stopped", "started"]


def test_what_has_finished_is_left_alone(world: World):
    world.started[0].states = ["finished"]
    world.step()
    world.step(1000.0)
    assert (world.state(), len(world.started)) == ("finished", 1)


def test_a_broker_that_is_away_stops_nobody_and_hears_everything_later(world: World):
    world.board.is_away = True
    world.started[0].failed = "broker gone"
    world.step()
    world.step(5.0)
    assert len(world.started) == 2
    world.board.is_away = False
    world.step()
    assert world.history() == ["started", "failed", "started"]
    assert world.state() == "running"


def test_news_come_at_once_and_the_rest_now_and_then(world: World):
    told = world.board.told
    world.step()
    assert world.board.told == told
    world.step(TELL_SECONDS)
    assert world.board.told == told + 1


ALERTS = "alerts: {fresh: 10m, webhook: 'http://pager/x'}\n"


def test_a_sink_without_new_rows_is_an_alert_until_it_has_some(world: World):
    world.write("stores", SOUND.format(name="stores") + ALERTS)
    world.step()
    world.step(601.0)
    (alert,) = world.board.standings["stores"].alerts
    assert (alert.query, alert.kind) == ("stores.o", "stale")
    assert world.board.standings["orders"].alerts == []
    world.started[-1].rows = 5
    world.step()
    assert world.board.standings["stores"].alerts == []
    assert [each.event for each in world.board.events if each.name == "stores"] == [
        "started",
        "alert",
        "resolved",
    ]
    assert [(url, notice.state, notice.alert) for url, notice in world.sent] == [
        ("http://pager/x", "firing", "stale"),
        ("http://pager/x", "resolved", "stale"),
    ]


def test_what_an_operator_stopped_raises_no_alert(world: World):
    world.write("orders", SOUND.format(name="orders") + ALERTS)
    world.step()
    world.ask("stop")
    world.step()
    world.step(5_000.0)
    assert (world.state(), world.board.standings["orders"].alerts) == ("stopped", [])


def test_reset_may_say_where_to_begin(world: World):
    world.board.asked.append(Command("orders", "reset", "latest"))
    world.step()
    places = Places("", world.path, "checkpoints", "orders")
    assert read_start(places) == "latest"
    assert "it begins at latest" in world.board.events[-2].text


def test_closing_ends_the_queries(world: World):
    world.service.close()
    assert world.started[0].is_stopped


def test_pipelines_beyond_the_limit_take_turns(world: World):
    world.write("stores")
    world.write("trucks")
    world.step()
    assert [each.name for each in world.started] == ["orders", "stores"]
    assert world.state("trucks") == "starting"
    orders, _ = world.started
    orders.rests = True
    world.step()
    assert (orders.is_parked, world.started[-1].name) == (True, "trucks")
    assert (world.state(), world.state("trucks")) == ("running", "running")


def test_a_parked_pipeline_wakes_when_its_topics_have_something_new(world: World):
    test_pipelines_beyond_the_limit_take_turns(world)
    orders, stores, _ = world.started
    world.news = {"orders": 7}
    world.step()
    assert (orders.news, orders.wakes) == (7, 0), "nobody gives way"
    stores.rests, orders.due = True, False
    world.step()
    assert orders.wakes == 0, "its trigger is not due"
    orders.due = True
    world.step()
    assert (orders.wakes, stores.is_parked) == (1, True)
    assert len(world.started) == 3, "it was woken, not planned once more"


def test_a_pipeline_that_cannot_be_woken_has_failed_and_is_started_again(world: World):
    test_pipelines_beyond_the_limit_take_turns(world)
    orders, stores, _ = world.started
    stores.rests, world.news = True, {"orders": 1}
    orders.objection = ServerUnreachable("no broker")
    world.step()
    assert (orders.is_stopped, world.state()) == (True, "retrying")
    world.step(2.0)
    assert (world.state(), world.started[-1].name) == ("running", "orders")


def test_a_parked_pipeline_is_stopped_reset_and_removed_as_others_are(world: World):
    test_pipelines_beyond_the_limit_take_turns(world)
    orders = world.started[0]
    world.ask("stop")
    world.step()
    assert (orders.is_stopped, world.state()) == (True, "stopped")
    world.ask("restart")
    world.started[1].rests = True
    world.step()
    assert (world.state(), world.started[-1].name) == ("running", "orders")
