"""`goqueue trace`: a message's journey, drawn and for programs."""

import pytest

from tests.unit.cli.invocation import facts, run


@pytest.mark.usefixtures("server")
def test_a_journey_is_shown_by_its_place_and_by_its_trace_id():
    run("topic", "create", "orders", "--partitions", 1, code=0)
    run("produce", "orders", "-m", "hello", "--key", "k1", code=0)
    found = facts("trace", "show", "orders/0/0")
    assert [each["event_type"] for each in found["spans"]] == [
        "publish.received",
        "publish.validated",
        "publish.persisted",
    ]
    assert facts("trace", "orders/0/0") == found
    assert facts("trace", found["trace_id"]) == found
    drawn = run("trace", "orders/0/0", "-o", "table", code=0).stdout
    assert "orders 0/0  pending" in drawn
    assert "● " in drawn
    assert "event_type: publish.received" in run("trace", "orders/0/0", "-o", "yaml").stdout
    listed = facts("trace", "recent")["traces"]  # other tests use this server, too
    assert found["trace_id"] in {each["trace_id"] for each in listed}
    assert facts("trace", "search", "--topic", "orders", "--key", "k1")["total"] == 1
    assert facts("trace", "search", "--topic", "orders", "--status", "error")["total"] == 0
    assert "recorded:" in run("trace", "stats", "-o", "table", code=0).stdout
    run("trace", "show", "orders/0/9", code=4)


def test_what_is_no_message_is_refused_with_an_example():
    refused = run("trace", "show", "orders", code=2)
    assert "orders/2/45678" in refused.output
