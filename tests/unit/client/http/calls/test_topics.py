"""Requests about topics."""

import msgspec

from goqueue.api.topics import TopicCreated
from tests.unit.client.http.fake_server import FakeServer, client_of, said


def test_a_topic_is_created_with_what_was_given():
    server = FakeServer(said(201, TopicCreated("t", "id", 2, {}, created=True)))
    made = client_of(server).create_topic("t", partitions=2, settings={"retention.ms": "5"})
    assert made.partitions == 2
    request = server.requests[0]
    assert (request.method, request.url.path) == ("POST", "/topics")
    assert msgspec.json.decode(request.content) == {
        "name": "t",
        "num_partitions": 2,
        "settings": {"retention.ms": "5"},
    }


def test_changed_settings_are_set_or_unset():
    server = FakeServer(said(200, {"topic": "t", "settings": {}}))
    client_of(server).change_settings("t", {"a": "1", "b": None})
    assert msgspec.json.decode(server.requests[0].content) == {"set": {"a": "1"}, "unset": ["b"]}
