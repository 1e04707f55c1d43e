"""`goqueue dlq`: dead letters are found, shown, moved and deleted."""

from collections.abc import Callable

import pytest

from goqueue.cli.commands.dlq import DeadLetterFilter, _header, _place
from goqueue.cli.failures import UsageFailure
from goqueue.embedding import BrokerInThread
from tests.unit.cli.invocation import facts, run


def test_a_filter_has_what_was_given_and_nothing_else():
    assert DeadLetterFilter().which() == {}
    assert DeadLetterFilter(key="k", from_time=0).which() == {"key": "k", "from_time": 0}
    assert DeadLetterFilter().which("1/20") == {"partition": 1, "offset": 20}


@pytest.mark.parametrize("text", ["", "1", "1/", "/1", "a/b", "1/2/3"])
def test_a_place_is_a_partition_and_an_offset(text: str):
    with pytest.raises(UsageFailure):
        _place(text)


def test_a_header_is_a_name_and_a_value():
    assert _header("tenant=a=b") == {"name": "tenant", "value": "a=b"}
    assert _header("tenant=") == {"name": "tenant", "value": ""}
    for text in ("tenant", "=a", ""):
        with pytest.raises(UsageFailure, match="NAME=VALUE"):
            _header(text)


def test_dead_letters_are_listed_shown_moved_and_purged(
    server: BrokerInThread, eventually: Callable[..., None]
):
    server.create_topic("letters")
    server.publish("letters", "one", "two")
    for each in facts("queue", "receive", "letters", "-g", "letters-workers", "-n", 2):
        run("queue", "reject", each["receipt_handle"], "--reason", "broken", code=0)
    eventually(lambda: facts("dlq", "list", "letters")["count"] == 2)
    listed = facts("dlq", "list", "letters")
    assert (listed["count"], listed["reasons"]) == (2, {"rejected": 2})
    places = run("dlq", "list", "letters", "--places", code=0).stdout.split()
    assert places == ["0/0", "0/1"]
    shown = facts("dlq", "show", "letters", "0/0")
    assert (shown["value"], shown["reason"], shown["error"]) == ("one", "rejected", "broken")
    assert facts("dlq", "redrive", "letters", "--dry-run")["moved"] == 2
    assert facts("dlq", "redrive", "letters", "0/0")["moved"] == 1
    assert "pass --force to purge" in run("dlq", "purge", "letters", code=2).stderr
    assert facts("dlq", "purge", "letters", "--force")["purged"] == 1
    assert facts("dlq", "list", "letters")["count"] == 0
    assert [message.value for message in server.read("letters")] == [b"one", b"two", b"one"]
    assert facts("dlq", "redrives", "letters") == []
