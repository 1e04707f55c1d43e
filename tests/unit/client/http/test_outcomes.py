"""What became of each message of a publish request."""

import pytest

from goqueue.client import Message, errors
from goqueue.client.http.outcomes import results_in
from tests.unit.client.http.fake_server import FakeServer, client_of, refused, said

PROBLEM = {"code": "message_too_large", "message": "too large"}


def test_publish_raises_when_some_failed():
    server = FakeServer(said(207, {"results": [{"partition": 0, "offset": 1}, {"error": PROBLEM}]}))
    with pytest.raises(errors.PublishIncomplete, match="1 of 2") as caught:
        client_of(server).publish("t", [Message("a"), Message("b")])
    assert [each.offset for each in caught.value.results] == [1, None]


def test_publish_raises_the_refusal_when_all_failed():
    server = FakeServer(refused(413, "message_too_large", results=[{"error": PROBLEM}]))
    with pytest.raises(errors.TooLarge):
        client_of(server).publish("t", [Message("a")])


def test_publish_each_gives_a_result_for_each_message():
    server = FakeServer(refused(413, "message_too_large", results=[{"error": PROBLEM}]))
    (result,) = client_of(server).publish_each("t", [Message("a")])
    assert result.error is not None
    assert result.error.code == "message_too_large"


def test_publish_each_raises_when_the_topic_takes_nothing():
    with pytest.raises(errors.TopicNotFound):
        client_of(FakeServer(refused(404, "topic_not_found"))).publish_each("t", [Message("a")])


def test_results_are_found_in_the_details_of_an_error():
    error = errors.TooLarge("no", code="c", status=413, details={"results": [{"error": PROBLEM}]})
    (found,) = results_in(error)
    assert found.error is not None
    for details in ({}, {"results": "nonsense"}):
        other = errors.TooLarge("no", code="c", status=413, details=details)
        with pytest.raises(errors.TooLarge) as caught:
            results_in(other)
        assert caught.value is other
