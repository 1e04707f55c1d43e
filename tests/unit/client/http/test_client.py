"""The client against a scripted server: requests, results, errors, repetition."""

import httpx
import pytest

from goqueue.api.server import HealthBody, VersionBody
from goqueue.api.topics import TopicList, TopicSummary
from goqueue.client import Message, errors
from tests.unit.client.http.fake_server import FakeServer, client_of, refused, said


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have slept."""
    found: list[float] = []
    monkeypatch.setattr("goqueue.client.http.client.time.sleep", found.append)
    return found


def test_a_name_is_quoted_in_the_path():
    server = FakeServer(refused(400, "invalid_name"))
    with pytest.raises(errors.BadRequest):
        client_of(server).topic("../a b")
    assert server.requests[0].url.raw_path == b"/topics/..%2Fa%20b"


def summary(name: str) -> TopicSummary:
    return TopicSummary(name, "id", 1, None, False, {}, None, None)


def test_all_pages_of_topics_are_read():
    first = TopicList(["a"], [summary("a")], next_after="a")
    second = TopicList(["b"], [summary("b")])
    server = FakeServer(said(200, first), said(200, second))
    assert [each.name for each in client_of(server).topics()] == ["a", "b"]
    assert server.requests[1].url.params["after"] == "a"


def test_a_server_that_is_not_ready_says_why():
    server = FakeServer(said(503, HealthBody("fail", None, 0.0, "starting")))
    health = client_of(server).health()
    assert (health.is_ready, health.message) == (False, "starting")


# --- repetition -----------------------------------------------------------------------------------


def test_a_publish_whose_answer_was_lost_is_not_sent_again(waits: list[float]):
    server = FakeServer(httpx.ReadTimeout(""))
    with pytest.raises(errors.NoAnswer):
        client_of(server).publish("t", [Message("a")])
    assert len(server.requests) == 1


def test_a_publish_is_sent_again_when_the_server_asks_for_that(waits: list[float]):
    busy = refused(503, "overloaded")
    busy.headers["Retry-After"] = "1"
    server = FakeServer(busy, said(200, {"results": [{"partition": 0, "offset": 4}]}))
    assert client_of(server).publish("t", [Message("a")])[0].offset == 4
    assert waits == [1.0]


def test_a_read_is_repeated_when_its_answer_was_lost(waits: list[float]):
    server = FakeServer(httpx.ReadError("reset"), said(200, VersionBody("1", [])))
    assert client_of(server).version().version == "1"
    assert len(server.requests) == 2


def test_repetition_ends(waits: list[float]):
    server = FakeServer(httpx.ConnectError("refused"))
    with pytest.raises(errors.ServerUnreachable):
        client_of(server, retries=3).version()
    assert len(server.requests) == 4


def test_repetition_ends_with_the_time_out(waits: list[float]):
    busy = refused(503, "overloaded")
    busy.headers["Retry-After"] = "2"
    server = FakeServer(busy)
    with pytest.raises(errors.Overloaded):
        client_of(server, timeout=1.5).version()
    assert (len(server.requests), waits) == (1, [])
