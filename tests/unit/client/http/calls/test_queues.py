"""Requests about queues and dead letters: what is said, and which may be sent twice."""

import msgspec
import pytest

from goqueue.client.http.calls import queues


def body(call) -> object:
    return msgspec.json.decode(call.body)


def test_a_receive_waits_as_long_as_it_says_and_is_not_repeated():
    call = queues.receive("a/b", "g", max_messages=5, wait_ms=1_500)
    assert call.path == "/queues/a%2Fb/receive"
    assert body(call) == {"group": "g", "max_messages": 5, "wait": 1_500}
    assert (call.wait_seconds, call.is_long_poll, call.is_repeatable) == (1.5, True, False)
    assert not queues.receive("t", "g").is_long_poll


@pytest.mark.parametrize(
    ("make", "path", "more"),
    [
        (lambda: queues.ack("r", "s"), "ack", {}),
        (lambda: queues.nack("r", "s"), "nack", {"reason": ""}),
        (lambda: queues.nack("r", "s", delay_ms=0), "nack", {"reason": "", "delay": 0}),
        (lambda: queues.reject("r", "s", reason="bad"), "reject", {"reason": "bad"}),
        (lambda: queues.extend("r", "s", visibility_ms=9), "visibility", {"timeout": 9}),
        (lambda: queues.release("r", "s"), "release", {"delay": 0}),
    ],
)
def test_a_settlement_names_its_receipts_and_may_be_repeated(make, path, more):
    call = make()
    assert call.path == f"/messages/{path}"
    assert body(call) == {"receipt_handles": ["r", "s"]} | more
    assert call.is_repeatable


def test_a_range_is_acked_for_one_consumer_or_for_all():
    assert body(queues.ack_range("t", "g", 0, 3, 7)) == {
        "group": "g",
        "partition": 0,
        "first": 3,
        "last": 7,
    }
    assert queues.ack_range("t", "g", 0, 3, 7, consumer="ann").is_repeatable


@pytest.mark.parametrize(("reset_others", "method"), [(False, "PATCH"), (True, "PUT")])
def test_settings_are_changed_or_all_set(reset_others, method):
    call = queues.change_queue_settings("g", {"max_failures": 7}, reset_others=reset_others)
    assert (call.method, call.path) == (method, "/groups/g/queue")


def test_dead_letters_are_asked_for_by_what_they_are():
    call = queues.dead_letters("t", {"reason": "rejected", "limit": 1}, limit=5)
    assert call.query == {"reason": "rejected", "limit": "5"}
    assert queues.dead_letters("t", reasons=True).query == {"reasons": "true"}
    assert queues.dead_letters("t").query == {}


@pytest.mark.parametrize(
    ("limit", "rate", "seconds"), [(None, None, 0), (100, None, 0), (None, 5, 0), (100, 5, 20)]
)
def test_a_redrive_takes_as_long_as_its_rate_says(limit, rate, seconds):
    call = queues.redrive("t", {"group": "g"}, to="u", limit=limit, rate=rate, dry_run=True)
    assert call.wait_seconds == seconds
    assert not call.is_repeatable, "it would move the next ones, too"
    said = {"group": "g", "to": "u", "limit": limit, "rate": rate, "dry_run": True}
    assert body(call) == {name: value for name, value in said.items() if value is not None}


def test_a_redrive_in_the_background_is_waited_for_by_nobody():
    call = queues.start_redrive("t", limit=100, rate=5)
    assert (call.wait_seconds, call.is_repeatable) == (0, False)
    assert body(call) == {"limit": 100, "rate": 5, "background": True}
    assert queues.cancel_redrive("t", "1").is_repeatable


def test_dead_letters_are_purged_by_a_query():
    call = queues.purge_dead_letters("t", {"partition": 3, "key": None})
    assert (call.method, call.path, call.query) == ("DELETE", "/topics/t/dlq", {"partition": "3"})
    assert queues.purge_dead_letters("t").query == {}
    assert call.is_repeatable


def test_messages_in_flight_are_those_of_a_topic_or_a_consumer():
    call = queues.in_flight("g", topic="t", consumer="ann", limit=5)
    assert call.path == "/groups/g/in-flight"
    assert call.query == {"topic": "t", "consumer": "ann", "limit": "5"}
    assert queues.in_flight("g").query == {}
