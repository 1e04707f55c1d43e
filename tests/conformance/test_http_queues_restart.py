"""What a queue answered holds when its server is killed."""

import concurrent.futures
import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conformance.http_groups import HttpGroupServer
from tests.conformance.http_queues import Queue, values

Eventually = Callable[..., None]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[HttpGroupServer]:
    """One that the test may kill."""
    server = HttpGroupServer(tmp_path)
    server.start()
    yield server
    server.kill()


def killed(server: HttpGroupServer) -> None:
    server.kill()
    server.start()


def test_what_was_answered_survives_kill_nine(own_server: HttpGroupServer, eventually: Eventually):
    queue = Queue(own_server, own_server.topic(1), "durable", visibility_ms=60_000)
    queue.publish("acked", "nacked", "held", "rejected", "fresh")
    acked, nacked, held, rejected = queue.receive(4)
    queue.settle("ack", acked)
    queue.settle("nack", nacked, reason="once", delay="1ms")
    queue.settle("reject", rejected, reason="never")
    killed(own_server)
    assert own_server.get("/groups/durable/queue")["settings"]["visibility_ms"] == 60_000
    found = sorted(queue.receive(wait="10s"), key=lambda each: each["offset"])
    found += queue.receive() if len(found) < 2 else []
    assert {(each["value"], each["attempt"]) for each in found} == {("nacked", 2), ("fresh", 1)}
    assert queue.settle("ack", acked)["action"] == "acked"
    assert queue.settle("ack", held)["action"] == "acked"
    queue.settle_all("ack", found)
    eventually(lambda: queue.letters()["count"] == 1)
    eventually(lambda: queue.floors() == {0: 5})
    killed(own_server)
    assert queue.receive() == []
    assert queue.floors() == {0: 5}
    assert queue.server.post(f"/topics/{queue.topic}/dlq/redrive")["moved"] == 1
    killed(own_server)
    assert queue.letters()["count"] == 0
    assert values(queue.receive(wait="10s")) == ["rejected"]


def test_deliveries_mean_the_same_after_kill_nine(own_server: HttpGroupServer):
    """A dead worker's go to another, late receipts are refused, what was extended stays."""
    queue = Queue(own_server, own_server.topic(1), "durable", visibility_ms=2_000)
    other = Queue(own_server, queue.topic, "others", visibility_ms=60_000)
    queue.publish("late")
    (late,) = queue.receive(1, visibility="10ms")
    late_again = queue.one(consumer="ann", visibility="60s")
    assert late_again["attempt"] == 2
    queue.publish("dead", "extended")
    dead, extended = queue.receive(2, consumer="dead")
    queue.settle("visibility", extended, timeout="60s")
    others = other.receive(3)
    killed(own_server)
    assert queue.settle("ack", late, 409)["error"]["code"] == "receipt_expired"
    again = queue.one(consumer="bob", wait="20s")
    assert (again["value"], again["attempt"]) == ("dead", 2)
    assert queue.settle("ack", dead, 409)["error"]["code"] == "receipt_expired"
    assert values(queue.receive()) == []  # "extended" is still in its worker's hands
    for message in (late_again, again, extended):
        assert queue.settle("ack", message)["action"] == "acked"
    assert queue.floors() == {0: 3}
    assert other.floors() == {0: 0}  # two groups never disturb each other
    other.settle_all("ack", others)
    assert other.floors() == {0: 3}


def test_messages_written_after_the_log_lost_its_end_are_delivered(
    own_server: HttpGroupServer, tmp_path: Path
):
    queue = Queue(own_server, own_server.topic(1), "durable", visibility_ms=60_000)
    for number in range(20):
        queue.publish(f"old {number}")
    queue.settle_all("ack", queue.receive(20))
    own_server.kill()
    (log,) = tmp_path.glob(f"**/logs/{queue.topic}/0/*.log")
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 2)
    own_server.start()
    new = [f"new {number}" for number in range(15)]
    queue.publish(*new)
    assert values(queue.receive(100)) == new


def test_attempts_are_counted_across_kill_nine(own_server: HttpGroupServer, eventually: Eventually):
    queue = Queue(own_server, own_server.topic(1), "durable", max_failures=3)
    queue.publish("bad")
    for attempt in (1, 2, 3):
        message = queue.one()
        assert message["attempt"] == attempt
        queue.settle("nack", message, reason=f"failure {attempt}")
        killed(own_server)
    eventually(lambda: queue.letters()["count"] == 1)
    (letter,) = queue.letters()["messages"]
    assert (letter["attempts"], letter["error"]) == (3, "failure 3")
    assert queue.receive() == []


def test_workers_lose_nothing_when_the_server_is_killed(own_server: HttpGroupServer):
    queue = Queue(own_server, own_server.topic(2), "durable", visibility_ms=1_000, max_timeouts=99)
    queue.publish(*(str(number) for number in range(300)))
    done: set[str] = set()
    for count in itertools.count():
        try:
            found = queue.receive(20, wait="2s")
            if not found and len(done) == 300:
                break
            queue.settle_all("ack", found)
            assert not done & set(values(found)), "acked messages came again"
            done |= set(values(found))
        except httpx.TransportError:
            continue
        if count in (2, 5):
            killed(own_server)
    assert len(done) == 300


def test_a_topic_s_time_to_live_survives_kill_nine(
    own_server: HttpGroupServer, eventually: Eventually
):
    settings = {"goqueue.ttl.ms": "1", "goqueue.expired": "drop"}
    made = own_server.post("/topics", 201, name="news", num_partitions=1, settings=settings)
    assert made["settings"] == settings
    queue = Queue(own_server, "news", "readers")
    queue.publish("dropped")
    killed(own_server)
    eventually(lambda: queue.receive() == [] and queue.floors() == {0: 1})
    changed = own_server.client.patch(
        "/topics/news/settings", json={"set": {"goqueue.expired": "dead_letter"}}
    )
    assert changed.status_code == 200, changed.text
    queue.publish("letter")
    killed(own_server)
    eventually(lambda: queue.receive() == [] and queue.letters()["count"] == 1)
    (letter,) = queue.letters()["messages"]
    assert (letter["value"], letter["reason"]) == ("letter", "expired")


def test_a_redrive_that_kill_nine_interrupts_brings_each_message_once(
    own_server: HttpGroupServer, eventually: Eventually
):
    queue = Queue(own_server, own_server.topic(2), "durable", max_in_flight_consumer=100_000)
    target = Queue(own_server, own_server.topic(3), "others")
    sent = [str(number) for number in range(2_000)]
    queue.publish(*sent)
    while found := queue.receive(1_000):
        queue.settle_all("reject", found, reason="bad", quiet=True)
    eventually(lambda: queue.letters(limit=0)["count"] == 2_000)
    path = f"/topics/{queue.topic}/dlq/redrive"
    with concurrent.futures.ThreadPoolExecutor() as threads:
        for kill_at in (100, 700):
            asking = threads.submit(
                own_server.client.post, path, json={"to": target.topic, "rate": 2000}
            )
            while target.end() < kill_at and not asking.done():
                pass
            killed(own_server)
            with contextlib.suppress(httpx.TransportError):
                asking.result()
    own_server.post(path, to=target.topic)
    assert queue.letters()["count"] == 0
    came: list[str] = []
    while found := target.receive(1_000, wait="1s"):
        target.settle_all("ack", found, quiet=True)
        came += values(found)
    assert sorted(came, key=int) == sent
