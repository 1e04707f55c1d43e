"""A member of a group, seen from the client's side."""

from typing import Any, Final

import httpx
import msgspec
import pytest

from goqueue.api.groups import (
    GroupMessage,
    MembershipBody,
    PollBody,
)
from goqueue.client import GroupReading, errors
from goqueue.model.topic_partition import TopicPartition
from tests.unit.client.http.fake_server import FakeServer, client_of, refused, said

MEMBERSHIP: Final[dict[str, Any]] = {
    "member_id": "m",
    "mode": "stream",
    "generation": 1,
    "state": "Stable",
    "partitions": [TopicPartition("t", 0)],
    "revoked": [],
    "rebalance_required": False,
    "session_timeout_ms": 30_000,
    "heartbeat_interval_ms": 3_000,
}


def answer_join() -> httpx.Response:
    return said(200, MembershipBody(**MEMBERSHIP))


def answer_poll(*offsets: int, poll_id: int = 7, generation: int = 1) -> httpx.Response:
    messages = [
        GroupMessage("t", 2, offset, 1000, None, f"v{offset}", [], "normal") for offset in offsets
    ]
    answer = MEMBERSHIP | {"generation": generation}
    return said(
        200, PollBody(**answer, messages=messages, next_offsets={}, poll_id=poll_id, problems=[])
    )


def test_each_poll_says_what_the_last_answer_was():
    server = FakeServer(answer_join(), answer_poll(0, 1, generation=4), answer_poll())
    client, reading = client_of(server), GroupReading("g", ["t"], auto_commit=False)
    client.join(reading)
    first = client.poll(reading, limit=5, wait_ms=100)
    assert [(each.topic, each.partition, each.value) for each in first] == [
        ("t", 2, b"v0"),
        ("t", 2, b"v1"),
    ]
    assert client.poll(reading) == []
    join, _, again = server.requests
    body = msgspec.json.decode(join.content)
    assert body["auto_commit"] is False
    assert body["member_id"], "who names itself may ask twice"
    assert dict(again.url.params) == {
        "member_id": "m",
        "generation": "4",
        "seen": "7",
        "timeout": "0",
    }


def test_a_poll_whose_answer_is_lost_is_sent_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("goqueue.client.http.client.time.sleep", lambda _: None)
    server = FakeServer(answer_join(), httpx.ReadError("gone"), answer_poll(0))
    client, reading = client_of(server), GroupReading("g", ["t"])
    client.join(reading)
    assert len(client.poll(reading)) == 1
    assert server.requests[1].url == server.requests[2].url


@pytest.mark.parametrize(
    ("status", "code"), [(404, "unknown_member_id"), (409, "illegal_generation")]
)
def test_a_member_that_was_forgotten_joins_again(status: int, code: str):
    server = FakeServer(answer_join(), refused(status, code), answer_join(), answer_poll(3))
    client, reading = client_of(server), GroupReading("g", ["t"])
    client.join(reading)
    assert [each.offset for each in client.poll(reading)] == [3]
    assert [request.url.path for request in server.requests] == [
        "/groups/g/join",
        "/groups/g/poll",
        "/groups/g/join",
        "/groups/g/poll",
    ]


def test_other_refusals_are_the_caller_s():
    server = FakeServer(answer_join(), refused(404, "topic_not_found"))
    client, reading = client_of(server), GroupReading("g", ["t"])
    client.join(reading)
    with pytest.raises(errors.TopicNotFound):
        client.poll(reading)
