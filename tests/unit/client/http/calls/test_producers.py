"""Requests of a transactional producer: each names it, and few may be sent twice."""

import msgspec
import pytest

from goqueue.client.http.calls import producers
from goqueue.client.http.calls.producers import Ids

IDS = Ids("billing", 7, 2, "tx-1")
SAID = {"transactional_id": "billing", "producer_id": 7, "epoch": 2, "transaction_id": "tx-1"}


@pytest.mark.parametrize(
    ("make", "verb", "more", "is_repeatable"),
    [
        (lambda: producers.begin(IDS), "begin", {}, False),
        (
            lambda: producers.publish(IDS, "t", "v"),
            "messages",
            {"topic": "t", "messages": [{"value": "v"}]},
            False,
        ),
        (lambda: producers.acks(IDS, ["r"]), "acks", {"receipt_handles": ["r"]}, True),
        (
            lambda: producers.offsets(IDS, "g", {("t", 3): 9}),
            "offsets",
            {"group": "g", "offsets": [{"topic": "t", "partition": 3, "offset": 9}]},
            True,
        ),
        (lambda: producers.commit(IDS), "commit", {}, True),
        (lambda: producers.abort(IDS), "abort", {}, True),
    ],
    ids=["begin", "publish", "acks", "offsets", "commit", "abort"],
)
def test_each_request_names_the_producer_and_its_transaction(make, verb, more, is_repeatable):
    call = make()
    assert (call.method, call.path) == ("POST", f"/transactions/{verb}")
    assert msgspec.json.decode(call.body) == SAID | more
    assert call.is_repeatable is is_repeatable


def test_before_a_transaction_there_is_none_to_name():
    call = producers.begin(Ids("billing", 7, 2))
    assert b"transaction_id" not in (call.body or b"")


def test_a_producer_may_be_started_twice():
    call = producers.init("billing", 5_000)
    assert call.is_repeatable
    assert msgspec.json.decode(call.body or b"") == {
        "transactional_id": "billing",
        "transaction_timeout_ms": 5_000,
    }
