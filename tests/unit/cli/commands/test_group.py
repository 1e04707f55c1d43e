"""`goqueue group`: what is shown of groups, and how their offsets are moved."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from goqueue.cli.commands.group import ID_LENGTH_MAX, Destination, _places, _shorten
from goqueue.cli.failures import UsageFailure
from goqueue.embedding import BrokerInThread
from goqueue.model.ids import TopicName
from goqueue.model.topic_partition import TopicPartition
from tests.unit.cli.invocation import facts, run


@pytest.mark.parametrize(
    ("destination", "chosen"),
    [
        (Destination(to_earliest=True), ("earliest", None)),
        (Destination(to_latest=True), ("latest", None)),
        (Destination(to_offset=0), ("offset", 0)),
        (Destination(to_offset=1), ("offset", 1)),
        (Destination(to_time=0), ("timestamp", 0)),
        (Destination(shift=-10), ("shift", -10)),
        (Destination(shift=1), ("shift", 1)),
    ],
)
def test_a_destination_is_a_word_and_a_value(destination: Destination, chosen: object):
    assert destination.choose() == chosen


@pytest.mark.parametrize(
    "destination",
    [Destination(), Destination(to_earliest=True, to_offset=0), Destination(True, True)],
)
def test_a_destination_is_given_once(destination: Destination):
    with pytest.raises(UsageFailure, match="give one of"):
        destination.choose()


def test_partitions_are_shown_by_topic():
    orders, refunds = TopicName("orders"), TopicName("refunds")
    places = [
        TopicPartition(orders, 0),
        TopicPartition(refunds, 1),
        TopicPartition(orders, 2),
    ]
    assert _places(places) == "orders/0,2 refunds/1"
    assert _places([]) == "-"


def test_long_ids_are_cut():
    assert _shorten("x" * ID_LENGTH_MAX) == "x" * ID_LENGTH_MAX
    assert _shorten("x" * (ID_LENGTH_MAX + 1)) == "x" * ID_LENGTH_MAX + "…"


def test_offsets_are_committed_shown_moved_and_deleted(server: BrokerInThread):
    server.create_topic("grouped")
    server.publish("grouped", *"abcde")
    shown = run("consume", "grouped", "--group", "readers", "-n", 3, code=0).stdout
    assert shown == "a\nb\nc\n"
    (offset,) = facts("group", "offsets", "readers")
    assert offset["offset"] == 3
    assert facts("group", "lag", "readers")["total_lag"] == 2
    assert "readers" in [each["id"] for each in facts("group", "list")]
    assert facts("group", "describe", "readers")["total_lag"] == 2
    reset = ("group", "reset-offsets", "readers", "--shift=-2")
    (move,) = facts(*reset, "--dry-run")
    assert (move["before"], move["after"]) == (3, 1)
    assert "pass --force to move offsets" in run(*reset, code=2).stderr
    assert facts(*reset, "--force") == [move]
    assert facts("group", "offsets", "readers")[0]["offset"] == 1
    assert "total" in run("group", "lag", "readers", "-o", "table", code=0).stdout
    assert facts("group", "delete", "readers", "-y") == {"group": "readers", "deleted": True}
    run("group", "describe", "readers", code=4)


def test_a_watched_group_is_a_value_a_time(server: BrokerInThread, monkeypatch: pytest.MonkeyPatch):
    server.create_topic("watched")
    server.publish("watched", "a")
    run("consume", "watched", "--group", "seen", "-n", 1, code=0)
    looked: list[tuple[Any, float]] = []

    def once(look: Callable[[], tuple[object, object]], interval: float) -> None:
        looked.append((look()[0], interval))
        raise KeyboardInterrupt

    monkeypatch.setattr("goqueue.cli.live.watch", once)
    run("group", "lag", "seen", "--watch", "--interval", 5)
    ((value, interval),) = looked
    assert interval == 5
    assert msgspec.to_builtins(value)["total_lag"] == 0
