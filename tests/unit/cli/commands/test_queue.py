"""`goqueue queue`: messages are received, ended and looked at."""

import getpass

import pytest

from goqueue.cli.commands.queue import VALUE_SHOWN_MAX, _setting, _value, consumer_name, shorten
from goqueue.embedding import BrokerInThread
from tests.unit.cli.invocation import facts, run


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "-"),
        (b"", ""),
        (b"plain", "plain"),
        (b"a\nb\x1b[31m", "a\\nb\\x1b[31m"),
        (b"\xff", "\\xff"),
        ("é".encode(), "é"),
        (b"x" * VALUE_SHOWN_MAX, "x" * VALUE_SHOWN_MAX),
        (b"x" * (VALUE_SHOWN_MAX + 1), "x" * (VALUE_SHOWN_MAX - 1) + "…"),
    ],
)
def test_a_value_is_shown_on_one_line_and_obeyed_by_no_terminal(data: bytes | None, text: str):
    assert shorten(data) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50,25,15,7,3", [50, 25, 15, 7, 3]),
        ("5", 5),
        ("0.5", 0.5),
        ("key", "key"),
        ("a,b", "a,b"),
        ("", ""),
    ],
)
def test_a_setting_is_a_number_numbers_or_a_word(text: str, value: object):
    assert _value(text) == value
    assert str(_setting(value)) == text


def test_a_consumer_without_a_name_is_the_user_at_the_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    assert consumer_name().startswith("ann@")

    def nobody() -> str:
        raise KeyError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert consumer_name().startswith("somebody@")


def test_messages_are_received_and_ended(server: BrokerInThread):
    server.create_topic("tasks")
    server.publish("tasks", "one", "two", "three")
    group = ("-g", "tasks-workers")
    assert [each["value"] for each in facts("queue", "peek", "tasks", *group)] == [
        "one",
        "two",
        "three",
    ]
    first, second = facts("queue", "receive", "tasks", *group, "-n", 2)
    assert (first["value"], first["attempt"]) == ("one", 1)
    held = facts("queue", "in-flight", *group)
    assert [each["offset"] for each in held] == [0, 1]
    (acked,) = facts("queue", "ack", first["receipt_handle"])
    assert acked["action"] == "acked"
    run("queue", "release", second["receipt_handle"], code=0)
    run("queue", "receive", "tasks", *group, "-n", 10, "--ack", code=0)
    (stats,) = facts("queue", "stats", *group)["groups"]
    assert (stats["ready"], stats["in_flight"], stats["totals"]["acked"]) == (0, 0, 3)
    assert "nothing to receive" in run("queue", "receive", "tasks", *group, "-o", "table").stderr


@pytest.mark.usefixtures("server")
def test_settings_are_shown_and_changed():
    changed = facts("queue", "settings", "-g", "tuned", "--set", "visibility_ms=5000")
    assert changed["visibility_ms"] == 5000
    assert facts("queue", "settings", "-g", "tuned")["visibility_ms"] == 5000
    assert facts("queue", "settings", "-g", "tuned", "--reset")["visibility_ms"] != 5000
