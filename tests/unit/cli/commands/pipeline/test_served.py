"""`goqueue pipeline list`, `status`, `logs`, `stop`: what a service told over a real broker."""

import time

import pytest

from goqueue.client import Client
from goqueue.spark.runtime.progress import Progress
from goqueue.spark.service.alerts import Alert
from goqueue.spark.service.board import Event, Standing, TopicBoard
from tests.unit.cli.invocation import facts, run


@pytest.fixture
def board(server):
    with Client(server.http) as client:
        found = TopicBoard(client)
        found.make_topics()
        yield found
        for each in ("orders", "stores"):
            found.forget(each)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_where_no_service_runs_there_is_nothing(board):
    assert facts("pipeline", "list") == []
    assert "no pipelines are served" in run("pipeline", "list", "-o", "table", code=0).stderr
    assert "'orders' is served" in run("pipeline", "status", "orders", code=4).stderr


def test_how_pipelines_are_and_what_happened_to_them(board):
    query = Progress("orders.o", "running", rows=1200, rows_per_second=40.0, lag=7)
    board.tell(Standing("orders", "starting", "/p/orders.yaml", now_ms(), host="h"))
    standing = Standing("orders", "running", "/p/orders.yaml", now_ms(), "h", 2, queries=[query])
    board.tell(standing)
    board.tell(Standing("stores", "invalid", "/p/stores.yaml", 1000, problem="no SQL\nat all"))
    board.note(Event("orders", "started", 1000))
    board.note(Event("stores", "changed", 2000))
    board.note(Event("orders", "failed", 3000, "no room"))
    assert [(each["name"], each["state"]) for each in facts("pipeline", "list")] == [
        ("orders", "running"),
        ("stores", "invalid"),
    ]
    shown = run("pipeline", "list", "-o", "table", "--wide", code=0).stdout.splitlines()
    assert shown[1].split() == ["orders", "running", "40", "7", "2"]
    assert shown[2].split() == ["stores", "silent", "0", "-", "0", "no", "SQL"]
    assert (
        "1,200 rows, 40/s, 7 behind"
        in run("pipeline", "status", "orders", "-o", "table", "--wide", code=0).stdout
    )
    events = facts("pipeline", "logs", "orders")
    assert [(each["event"], each.get("text", "")) for each in events][-2:] == [
        ("started", ""),
        ("failed", "no room"),
    ]
    assert facts("pipeline", "logs", "orders", "-n", 1)[0]["event"] == "failed"


def test_alerts_are_shown(board):
    alert = Alert("orders.o", "stale", "no new rows for more than 10m; none are waiting")
    board.tell(Standing("orders", "running", "/p/orders.yaml", now_ms(), "h", alerts=[alert]))
    shown = run("pipeline", "list", "-o", "table", "--wide", code=0).stdout
    assert "orders.o: stale" in shown
    told = run("pipeline", "status", "orders", "-o", "table", "--wide", code=0).stdout
    assert "orders.o: stale: no new rows for more than 10m" in told


def test_a_reset_to_something_that_is_no_time(board):
    board.tell(Standing("orders", "running", "/p/orders.yaml", now_ms(), "h"))
    told = run("pipeline", "reset", "orders", "--from", "yesterday", "--force", code=2).stderr
    assert "--from: 'yesterday' is not a time" in told


def test_commands_reach_the_service_and_only_a_service_that_lives(board):
    board.tell(Standing("stores", "running", "/p/stores.yaml", 1000, host="h"))
    silent = run("pipeline", "stop", "stores", code=3).stderr
    assert "the service on h has said nothing since 1970" in silent
    assert board.commands() == []
    board.tell(Standing("orders", "stopped", "/p/orders.yaml", now_ms()))
    assert facts("pipeline", "stop", "orders")["state"] == "stopped"
    assert [(each.name, each.verb) for each in board.commands()] == [("orders", "stop")]
    assert board.commands() == []
    assert board.find_stopped() == {"orders"}


def test_reset_asks_first(board):
    board.tell(Standing("orders", "running", "/p/orders.yaml", now_ms()))
    assert "--force" in run("pipeline", "reset", "orders", code=2).stderr
    assert board.commands() == []
