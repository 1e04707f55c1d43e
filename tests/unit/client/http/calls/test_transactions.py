"""Requests about transactions."""

from typing import Any

import msgspec

from goqueue.client.http.calls import transactions
from goqueue.client.http.calls.call import Call
from goqueue.client.http.calls.transactions import Member


def test_only_what_is_asked_for_is_said():
    assert transactions.transactions().query == transactions.transactions(state="").query == {}
    assert transactions.transactions(state="Ongoing", also_idle=True).query == {
        "state": "Ongoing",
        "all": "true",
    }
    assert transactions.transaction("a/b").query == {"transactional_id": "a/b"}


def test_all_that_an_application_does_may_be_repeated():
    decided = transactions.decide("a/b", version=3, run=2, members=[Member("t", 7, 1)])
    assert decided.path == "/transactions/groups/a%2Fb/decide"
    assert msgspec.json.decode(decided.body or b"") == {
        "version": 3,
        "run": 2,
        "members": [{"transactional_id": "t", "producer_id": 7, "epoch": 1}],
        "contents": "",
    }
    calls: list[Call[Any]] = [
        decided,
        transactions.start_run("a", "r"),
        transactions.start_attempt("a", version=3, run=2, task=1, attempt=0, timeout_ms=9),
        transactions.abort_version("a", version=3, run=2),
        transactions.retire_application("a"),
        transactions.describe_application("a"),
        transactions.abort_transaction("t"),
    ]
    assert all(call.is_repeatable for call in calls)
    assert [call.method for call in calls] == ["POST"] * 4 + ["DELETE", "GET", "POST"]


def test_numbers_that_are_nothing_are_said():
    call = transactions.start_attempt("a", version=0, run=0, task=0, attempt=0, timeout_ms=0)
    assert set(msgspec.json.decode(call.body or b"").values()) == {0}
