"""Groups in queue mode from outside: join, poll, ack, die."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from goqueue.client import Client, Delivery, QueueReading
from tests.conformance.http_groups import HttpGroupServer, HttpMember
from tests.conformance.http_queues import Queue, values

Eventually = Callable[..., None]
NUMBERS = itertools.count()
LONG = {"visibility_ms": 600_000}  # nothing comes back because its own time is over


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGroupServer]:
    server = HttpGroupServer(tmp_path_factory.mktemp("members"))
    server.start()
    yield server
    assert server.is_running, server.log()
    server.stop()
    assert "Traceback" not in server.log(), server.log()


@pytest.fixture
def group() -> str:
    return f"team-{next(NUMBERS)}"


def worker(server: HttpGroupServer, group: str, *topics: str, **settings: Any) -> HttpMember:
    return HttpMember(server, group, *topics, mode="queue", **settings)


def test_a_poll_gives_messages_of_several_topics_with_receipts(server: HttpGroupServer, group: str):
    orders, refunds = Queue(server, server.topic(2), group), Queue(server, server.topic(1), group)
    ann = worker(server, group, orders.topic, refunds.topic, client_id="ann")
    assert {topic for topic, _ in ann.partitions} == {orders.topic, refunds.topic}
    headers = [{"name": "h", "value": "1"}]
    orders.publish("one", key="k", headers=headers, priority="high")
    refunds.publish("two")
    found: list[dict[str, Any]] = []
    while len(found) < 2:
        answer = ann.poll("10s")
        assert (answer["mode"], answer["state"]) == ("queue", "Stable")
        found += answer["messages"]
    first, second = sorted(found, key=lambda each: str(each["value"]))
    assert second["value"] == "two"
    assert first["topic"] == orders.topic
    assert {"partition", "offset", "timestamp", "visible_until"} <= set(first)
    assert (first["key"], first["value"], first["attempt"]) == ("k", "one", 1)
    assert (first["headers"][0], first["priority"]) == (headers[0], "high")
    orders.settle_all("ack", found)
    assert ann.poll()["messages"] == []
    assert orders.held() == []
    ann.leave()


def test_a_dead_member_s_messages_go_to_another(server: HttpGroupServer, group: str):
    queue = Queue(server, server.topic(1), group, **LONG)
    worker(server, group, queue.topic, member_id="dead", session_timeout_ms=600)
    queue.publish("a")
    (held,) = server.get(f"/groups/{group}/poll", member_id="dead")["messages"]
    bob = worker(server, group, queue.topic)
    (again,) = bob.poll("20s")["messages"]
    assert (again["value"], again["attempt"]) == ("a", 2)
    assert queue.settle("ack", held, 409)["error"]["code"] == "receipt_expired"
    gone = server.get(f"/groups/{group}/poll", 404, member_id="dead")
    assert gone["error"]["code"] == "unknown_member_id"
    queue.settle("ack", again)
    bob.leave()


def test_who_leaves_gives_back_at_once(server: HttpGroupServer, group: str):
    queue = Queue(server, server.topic(1), group, max_timeouts=1, **LONG)
    ann, bob = worker(server, group, queue.topic), worker(server, group, queue.topic)
    queue.publish("a")
    assert values(ann.poll("10s")["messages"]) == ["a"]
    ann.leave()
    (again,) = bob.poll("10s")["messages"]
    assert again["attempt"] == 2  # and it did not die: leaving is no failure
    bob.leave()


def test_an_old_generation_is_refused(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    old = worker(server, group, topic, member_id="same")
    new = worker(server, group, topic, member_id="same")
    assert old.poll(status=409)["error"]["code"] == "illegal_generation"
    assert old.heartbeat(status=409)["error"]["code"] == "illegal_generation"
    assert new.heartbeat()["generation"] == new.generation
    refused = new.commit({topic: {0: 1}}, 400)
    assert "acks" in refused["error"]["message"]
    new.leave()


def test_a_group_is_in_one_mode_at_a_time(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    ann = worker(server, group, topic, session_timeout_ms=60_000)
    refused = server.post(f"/groups/{group}/join", 409, topics=[topic])
    assert refused["error"]["code"] == "group_mode_conflict"
    kafka = Consumer({**server.bootstrap, "group.id": group, "group.protocol": "consumer"})
    kafka.subscribe([topic])
    told = kafka.poll(20)
    assert told is not None
    assert "Inconsistent group protocol" in str(told.error())
    kafka.close()
    ann.leave()
    reader = HttpMember(server, group, topic)
    for path, body in (
        (f"/groups/{group}/join", {"topics": [topic], "mode": "queue"}),
        (f"/queues/{topic}/receive", {"group": group}),
    ):
        refused = server.post(path, 409, **body)
        assert refused["error"]["code"] == "group_mode_conflict"
    reader.leave()
    worker(server, group, topic).leave()


def test_operators_see_the_members(server: HttpGroupServer, group: str):
    topic = server.topic(2)
    ann = worker(server, group, topic, client_id="ann")
    detail = server.get(f"/groups/{group}")
    assert (detail["type"], detail["state"], detail["topics"]) == ("share", "Stable", [topic])
    (member,) = detail["members"]
    assert (member["client_id"], member["protocol"]) == ("ann", "http")
    assert len(member["partitions"]) == 2
    listed = server.get("/groups", type="share", state="Stable")["groups"]
    assert group in [each["id"] for each in listed]
    refused = server.client.delete(f"/groups/{group}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "non_empty_group")
    ann.leave()
    assert server.client.delete(f"/groups/{group}").status_code == 200
    assert server.get(f"/groups/{group}", 404)["error"]["code"] == "group_id_not_found"


def test_what_only_streams_have_is_refused(server: HttpGroupServer, group: str):
    topic = server.topic(1)
    for name, value in (("topics_regex", "a.*"), ("instance_id", "i"), ("topics", [])):
        body: dict[str, Any] = {"topics": [topic], "mode": "queue", name: value}
        refused = server.post(f"/groups/{group}/join", 400, **body)
        assert name in refused["error"]["message"]


def test_the_python_client_works_messages_off(server: HttpGroupServer, group: str):
    queue = Queue(server, server.topic(1), group)
    queue.publish("a", "b")
    with Client(f"http://{server.host}:{server.port}") as client:
        reading = QueueReading(group, [queue.topic], client_id="py")
        client.join(reading)
        found: list[Delivery] = client.poll(reading, wait_ms=10_000)
        assert [each.value for each in found] == [b"a", b"b"]
        client.heartbeat(reading)
        assert [each.action for each in client.ack(*found)] == ["acked", "acked"]
        client.leave(reading)
        assert client.group(group).members == []
        assert client.poll(reading) == []  # joins again by itself
        client.leave(reading)


def test_members_outlive_a_killed_server(tmp_path: Path):
    server = HttpGroupServer(tmp_path)
    server.start()
    try:
        queue = Queue(server, server.topic(1), "durable", **LONG)
        ann = worker(server, "durable", queue.topic, session_timeout_ms=30_000)
        dead = worker(server, "durable", queue.topic, session_timeout_ms=1_000)
        queue.publish("a", "b", "c")
        mine, lost = ann.poll(limit=1)["messages"], dead.poll(limit=1)["messages"]
        server.kill()
        server.start()
        assert values(ann.poll("10s")["messages"]) == ["c"]
        queue.settle_all("ack", mine)
        (again,) = ann.poll("20s")["messages"]
        assert (again["offset"], again["attempt"]) == (lost[0]["offset"], 2)
        dead.poll(status=404)
    finally:
        server.kill()
