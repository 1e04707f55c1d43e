"""Queues from outside: real sockets, a server of their own."""

import concurrent.futures
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.conformance.http_groups import HttpGroupServer, timed
from tests.conformance.http_queues import Queue, values

MakeQueue = Callable[..., Queue]
Eventually = Callable[..., None]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGroupServer]:
    server = HttpGroupServer(tmp_path_factory.mktemp("queues"))
    server.start()
    yield server
    assert server.is_running, server.log()
    server.stop()
    assert "Traceback" not in server.log(), server.log()


NUMBERS = itertools.count()


@pytest.fixture
def make_queue(server: HttpGroupServer) -> MakeQueue:
    def make(partitions: int = 1, **settings: Any) -> Queue:
        return Queue(server, server.topic(partitions), f"group-{next(NUMBERS)}", **settings)

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> Queue:
    return make_queue()


# --- receive and ack ------------------------------------------------------------------------------


def test_a_message_arrives_as_it_was_published(queue: Queue):
    headers = [{"name": "a", "value": "1"}, {"name": "a", "value": None}]
    (sent,) = queue.publish("hello", key="k", headers=headers, priority="high")
    message = queue.one(consumer="me")
    assert message["value"] == "hello"
    assert (message["key"], message["attempt"], message["priority"]) == ("k", 1, "high")
    assert message["headers"] == [*headers, {"name": "gq-priority", "value": "high"}]
    assert (message["partition"], message["offset"]) == (sent["partition"], sent["offset"])
    (held,) = queue.held()
    assert (held["consumer"], held["receipt_handle"]) == ("me", message["receipt_handle"])
    assert held["visible_until"] == message["visible_until"]


def test_bytes_that_are_no_text_come_in_base64(queue: Queue):
    queue.publish("AP8=", encoding="base64")
    message = queue.one()
    assert (message["value"], message["encoding"]) == ("AP8=", "base64")


def test_a_kafka_commit_beyond_the_end_does_not_silence_the_group(queue: Queue):
    queue.publish("a", "b", "c")
    assert len(queue.receive(1)) == 1
    consumer = Consumer({**queue.server.bootstrap, "group.id": queue.group})
    try:
        far = TopicPartition(queue.topic, 0, 1_000_000)
        consumer.commit(offsets=[far], asynchronous=False)
    finally:
        consumer.close()
    assert queue.receive() == []
    queue.publish("d")
    assert values(queue.receive(wait="10s")) == ["d"]
    wanted = {"offsets": {queue.topic: {"0": 1_000_000}}}
    refused = queue.server.post(f"/groups/{queue.group}/offsets", 416, **wanted)
    assert "outside of the log, which has 0 to 4" in refused["error"]["message"]


def test_ack_alone_advances_the_group(queue: Queue):
    queue.publish("a", "b", "c")
    first, second, third = queue.receive()
    assert queue.settle("ack", second)["committed_offset"] == 0
    assert queue.settle("ack", first)["committed_offset"] == 2
    assert queue.settle("ack", third)["committed_offset"] == 3
    assert queue.floors() == {0: 3}
    assert queue.receive() == []


def test_a_repeated_ack_is_no_error(queue: Queue):
    queue.publish("a")
    message = queue.one()
    assert queue.settle("ack", message) == queue.settle("ack", message)


def test_an_idle_receive_ends_when_a_message_comes(queue: Queue):
    with concurrent.futures.ThreadPoolExecutor() as threads:
        waiting = threads.submit(queue.one, wait="20s")
        with timed(at_most=10):
            queue.publish("late")
            assert waiting.result()["value"] == "late"


def test_two_groups_never_disturb_each_other(queue: Queue, server: HttpGroupServer):
    other = Queue(server, queue.topic, f"{queue.group}-too")
    queue.publish("a", "b")
    queue.settle_all("ack", queue.receive())
    assert values(other.receive()) == ["a", "b"]
    assert queue.receive() == []
    assert other.floors() == {0: 0}


def test_thousands_are_acked_together(make_queue: MakeQueue):
    queue = make_queue(3, max_in_flight_consumer=100_000, visibility_ms=60_000)
    for start in range(0, 6_000, 1_000):
        queue.publish(*(str(number) for number in range(start, start + 1_000)))
    received: list[dict[str, Any]] = []
    while len(received) < 6_000:
        found = queue.receive(5_000, wait="5s")
        assert found
        received += found
    assert sorted(values(received), key=int) == [str(number) for number in range(6_000)]
    done = queue.settle_all("ack", received, quiet=True)
    assert done == {"settled": 6_000, "refused": 0, "results": []}
    assert sum(queue.floors().values()) == 6_000
    assert queue.held() == []


def test_a_range_is_acked_without_receipts(queue: Queue, server: HttpGroupServer):
    queue.publish("a", "b", "c", "d")
    queue.receive(4)
    body: dict[str, Any] = {"group": queue.group, "partition": 0, "first": 1, "last": 2}
    done = server.post(f"/queues/{queue.topic}/ack-range", **body)
    assert done == {"acked": 2, "offsets": [1, 2]}
    assert [each["offset"] for each in queue.held()] == [0, 3]


def test_peek_changes_nothing(queue: Queue, server: HttpGroupServer):
    queue.publish("a", "b")
    path = f"/queues/{queue.topic}/peek"
    seen = server.get(path, group=queue.group)["messages"]
    assert values(seen) == ["a", "b"] == values(server.get(path, group=queue.group)["messages"])
    assert [each["attempts"] for each in seen] == [0, 0]
    assert [each["attempt"] for each in queue.receive()] == [1, 1]


# --- what is refused ------------------------------------------------------------------------------


def test_receipts_are_refused_for_what_they_are(queue: Queue, server: HttpGroupServer):
    queue.publish("a")
    message = queue.one(visibility="100ms")
    again = queue.one()
    assert again["attempt"] == 2
    late = queue.settle("ack", message, 409)
    assert late["error"]["code"] == "receipt_expired"
    unknown = f"{queue.topic}:0:0:7:fffffffffffffff.{queue.group}"
    verbs: list[tuple[str, dict[str, Any]]] = [
        ("ack", {}),
        ("nack", {}),
        ("reject", {"reason": "r"}),
    ]
    for verb, more in verbs:
        found = server.post(f"/messages/{verb}", 404, receipt_handle=unknown, **more)
        assert found["error"]["code"] == "receipt_unknown"
        found = server.post(f"/messages/{verb}", 400, receipt_handle="nonsense", **more)
        assert found["error"]["code"] == "receipt_malformed"
    queue.settle("ack", again)


def test_a_batch_says_what_became_of_each(queue: Queue, server: HttpGroupServer):
    queue.publish("a", "b")
    good, other = queue.receive()
    handles = [good["receipt_handle"], "nonsense", other["receipt_handle"]]
    answer = server.post("/messages/ack", 207, receipt_handles=handles)
    assert (answer["settled"], answer["refused"]) == (2, 1)
    assert [each.get("action") for each in answer["results"]] == ["acked", None, "acked"]
    assert answer["results"][1]["error"]["code"] == "receipt_malformed"
    assert answer["results"][1]["index"] == 1
    refused = server.post("/messages/ack", 400, receipt_handles=["x", "y"])
    assert len(refused["error"]["details"]["results"]) == 2


def test_who_asks_quietly_hears_only_of_refusals(queue: Queue, server: HttpGroupServer):
    queue.publish("a", "b")
    first, second = (each["receipt_handle"] for each in queue.receive(2))
    handles = [first, "nonsense", second]
    answer = server.post("/messages/ack", 207, receipt_handles=handles, quiet=True)
    assert (answer["settled"], answer["refused"]) == (2, 1)
    (result,) = answer["results"]
    assert (result["index"], result["error"]["code"]) == (1, "receipt_malformed")
    late = server.post("/messages/nack", 409, receipt_handles=[first, second], quiet=True)
    assert late["error"]["code"] == "receipt_expired"
    assert [each["index"] for each in late["error"]["details"]["results"]] == [0, 1]


def test_both_kinds_of_receipts_at_once_are_refused(server: HttpGroupServer):
    server.post("/messages/ack", 400, receipt_handle="a", receipt_handles=["b"])
    server.post("/messages/ack", 400)


def test_no_such_topic_or_group(server: HttpGroupServer):
    server.post("/queues/nowhere/receive", 404, group="g")
    server.get("/groups/nobody/in-flight", 404)


def test_a_consumer_that_holds_too_much_is_told_so(make_queue: MakeQueue):
    queue = make_queue(max_in_flight_consumer=2, visibility_ms=60_000)
    queue.publish("a", "b", "c")
    held = queue.receive(10, consumer="greedy")
    assert values(held) == ["a", "b"]
    body = {"group": queue.group, "consumer": "greedy"}
    full = queue.server.client.post(f"/queues/{queue.topic}/receive", json=body)
    assert (full.status_code, full.json()["error"]["code"]) == (429, "too_many_in_flight")
    assert "Retry-After" in full.headers
    queue.settle("ack", held[0])
    assert values(queue.receive(10, consumer="greedy")) == ["c"]


# --- failures -------------------------------------------------------------------------------------


def test_a_message_that_fails_comes_again_and_dies_at_the_limit(
    make_queue: MakeQueue, eventually: Eventually
):
    queue = make_queue(max_failures=3)
    queue.publish("bad", key="k", headers=[{"name": "h", "value": "v"}])
    for attempt in (1, 2):
        message = queue.one(consumer="me")
        assert (message["attempt"], message.get("failures", 0)) == (attempt, attempt - 1)
        answer = queue.settle("nack", message, reason="boom")
        assert answer["action"] == "requeued"
        assert answer["next_visible_at"]
        assert queue.receive() == [], "the backoff is not over"
    last = queue.settle("nack", queue.one(consumer="me"), reason="boom")
    assert (last["action"], last["dlq_topic"]) == ("dead", f"{queue.topic}.dlq")
    eventually(lambda: queue.letters()["count"] == 1)
    (letter,) = queue.letters(reasons=True)["messages"]
    assert (letter["value"], letter["key"]) == ("bad", "k")
    assert letter["headers"] == [{"name": "h", "value": "v"}]
    assert (letter["reason"], letter["error"]) == ("max_failures", "boom")
    assert (letter["attempts"], letter["failures"], letter["timeouts"]) == (3, 3, 0)
    assert letter["source_offset"] == 0
    assert (letter["group"], letter["consumer"]) == (queue.group, "me")
    assert queue.letters(reasons=True)["reasons"] == {"max_failures": 1}
    eventually(lambda: queue.floors() == {0: 1})


def test_nack_with_a_delay(queue: Queue):
    queue.publish("a")
    queue.settle("nack", queue.one(), delay="400ms")
    with timed(at_least=0.3, at_most=10):
        assert queue.one()["attempt"] == 2


def test_a_dead_workers_messages_go_to_another(queue: Queue):
    queue.publish("a")
    queue.one(consumer="dies", visibility="300ms")
    with timed(at_least=0.2, at_most=10):
        again = queue.one(consumer="lives")
    assert again["attempt"] == 2
    queue.settle("ack", again)


def test_reject_makes_a_dead_letter_at_once(queue: Queue, eventually: Eventually):
    queue.publish("a")
    answer = queue.settle("reject", queue.one(), reason="no such customer")
    assert answer["action"] == "rejected"
    eventually(lambda: queue.letters()["count"] == 1)
    (letter,) = queue.letters()["messages"]
    assert (letter["reason"], letter["error"]) == ("rejected", "no such customer")


def test_a_message_without_an_answer_dies_at_a_limit_of_its_own(
    make_queue: MakeQueue, eventually: Eventually
):
    queue = make_queue(max_failures=1, max_timeouts=3, visibility_ms=50, backoff_base_ms=0)
    queue.publish("heavy")
    for timeouts in (0, 1, 2):
        message = queue.one()
        assert (message["attempt"], message.get("timeouts", 0)) == (timeouts + 1, timeouts)
        assert "failures" not in message
    eventually(lambda: queue.letters()["count"] == 1)
    (letter,) = queue.letters()["messages"]
    assert (letter["reason"], letter["failures"], letter["timeouts"]) == ("max_timeouts", 0, 3)
    queue.publish("short", ttl="1ms")
    eventually(lambda: not queue.receive() and queue.letters()["count"] == 2)
    (figures,) = queue.server.get("/reliability/stats", group=queue.group)["groups"]
    totals = figures["totals"]
    assert (totals["timed_out"], totals["expired"], totals["nacked"]) == (3, 1, 0)
    assert totals["dead_lettered"] == {"max_timeouts": 1, "expired": 1}
    metrics = queue.server.client.get("/metrics").text
    labels = f'{{group="{queue.group}",topic="{queue.topic}"}}'
    assert f"goqueue_messages_timed_out_total{labels} 3.0" in metrics
    assert f"goqueue_messages_expired_total{labels} 1.0" in metrics


def test_extend_keeps_a_message(queue: Queue):
    queue.publish("a")
    message = queue.one(visibility="300ms")
    answer = queue.settle("visibility", message, timeout="20s")
    assert answer["action"] == "extended"
    assert answer["new_deadline"] > message["visible_until"]
    assert queue.receive(wait="600ms") == []
    queue.settle("visibility", message, extension_seconds=20)
    queue.settle("visibility", message, extension_seconds="200ms")
    assert queue.one()["attempt"] == 2


def test_a_released_message_counts_no_failure(make_queue: MakeQueue):
    queue = make_queue(max_failures=1)
    queue.publish("a")
    for _ in range(3):
        assert queue.settle("release", queue.one())["action"] == "released"
    queue.settle("ack", queue.one())
    assert queue.letters()["count"] == 0


def test_an_operator_takes_messages_back(queue: Queue, server: HttpGroupServer):
    queue.publish("a", "b")
    queue.receive(consumer="stuck", visibility="60s")
    path = f"/groups/{queue.group}/in-flight"
    kept = server.post(f"{path}/extend", consumer="stuck", timeout="90s", last=0)
    assert [each["offset"] for each in kept["results"]] == [0]
    assert server.post(f"{path}/release", consumer="stuck")["settled"] == 2
    assert len(queue.receive(wait="5s")) == 2


# --- dead letters ---------------------------------------------------------------------------------


def test_an_operator_names_what_is_taken_back(queue: Queue, server: HttpGroupServer):
    queue.publish("a", "b", "c", "d")
    queue.receive(4, consumer="ann", visibility="1h")
    path = f"/groups/{queue.group}/in-flight"
    assert server.post(f"{path}/release", partition=0, first=1, last=2)["settled"] == 2
    assert [each["offset"] for each in queue.held()] == [0, 3]
    kept = server.post(f"{path}/extend", topic=queue.topic, consumer="ann", timeout="2h")
    assert kept["settled"] == 2
    assert server.post(f"{path}/release", consumer="bob")["settled"] == 0
    other = f"{queue.topic}:0:0:1:1.x{queue.group}"
    refused = server.post(f"{path}/release", 400, receipt_handles=[other])
    assert refused["error"]["code"] == "invalid_request"


def test_redrive_brings_back_what_was_there(queue: Queue, eventually: Eventually):
    fields = {"key": "k", "headers": [{"name": "h", "value": "v"}], "timestamp": 1_700_000_000_000}
    queue.publish("one", "two", "three", **fields)
    for message in queue.receive():
        queue.settle("reject", message, reason=message["value"])
    eventually(lambda: queue.letters()["count"] == 3)
    path = f"/topics/{queue.topic}/dlq"
    second = queue.letters()["messages"][1]
    found = queue.server.get(f"{path}/{second['partition']}/{second['offset']}")
    assert found == second
    queue.server.get(f"{path}/0/99", 404)
    assert queue.server.post(f"{path}/redrive", dry_run=True)["moved"] == 3
    assert queue.server.post(f"{path}/redrive", partition=0, offsets=[1])["moved"] == 1
    taken = queue.server.get(f"{path}/taken")["partitions"]
    assert taken == [{"partition": 0, "floor": 0, "ranges": [[1, 1]]}]
    back = queue.one()
    assert (back["value"], back["key"], back["headers"]) == ("two", "k", fields["headers"])
    assert back["timestamp"] == "2023-11-14T22:13:20.000Z"
    assert back["attempt"] == 1
    assert queue.server.post(f"{path}/redrive")["moved"] == 2
    assert sorted(values(queue.receive(2, wait="5s"))) == ["one", "three"]
    assert queue.letters()["count"] == 0
    assert queue.server.post(f"{path}/redrive")["moved"] == 0


def test_dead_letters_go_elsewhere_or_away(queue: Queue, eventually: Eventually):
    for key in ("a", "b", "c"):
        queue.publish(key, key=key)
    queue.settle_all("reject", queue.receive(), reason="r")
    eventually(lambda: queue.letters()["count"] == 3)
    elsewhere = queue.server.topic(1)
    path = f"/topics/{queue.topic}/dlq"
    assert queue.server.post(f"{path}/redrive", key="b", to=elsewhere)["moved"] == 1
    read = queue.server.get(f"/topics/{elsewhere}/partitions/0/messages")["messages"]
    assert values(read) == ["b"]
    assert values(queue.letters(key="a")["messages"]) == ["a"]
    first = queue.letters(limit=1)
    assert values(queue.letters(after=first["next_after"])["messages"]) == ["c"]
    gone = queue.server.client.delete(path, params={"key": "a"})
    assert gone.json()["purged"] == 1
    assert queue.server.client.delete(path).json()["purged"] == 1
    assert queue.letters()["count"] == 0


def test_a_message_past_its_time_becomes_a_dead_letter(queue: Queue, eventually: Eventually):
    queue.publish("short", ttl="1ms")
    queue.publish("long", ttl="1h")
    eventually(lambda: values(queue.receive(wait="100ms")) == ["long"])
    eventually(lambda: queue.letters()["count"] == 1)
    (letter,) = queue.letters()["messages"]
    assert (letter["value"], letter["reason"]) == ("short", "expired")


# --- order ----------------------------------------------------------------------------------------


def test_critical_messages_overtake(queue: Queue):
    queue.publish(*(f"low-{number}" for number in range(500)), priority="low")
    queue.publish("urgent", priority="critical")
    assert queue.one()["value"] == "urgent"
    lanes = queue.server.get("/priority/stats", group=queue.group)["lanes"]
    assert (lanes["low"]["ready"], lanes["critical"]["in_flight"]) == (500, 1)


def test_one_message_of_a_key_at_a_time(make_queue: MakeQueue):
    queue = make_queue(ordering="key")
    for value in ("a1", "b1", "a2", "b2"):
        queue.publish(value, key=value[0])
    first = queue.receive()
    assert values(first) == ["a1", "b1"]
    queue.settle("ack", first[1])
    assert values(queue.receive(wait="5s")) == ["b2"]
    queue.settle("nack", first[0])
    again = queue.one()
    assert (again["value"], again["attempt"]) == ("a1", 2)
    queue.settle("ack", again)
    assert queue.one()["value"] == "a2"


def test_the_lowest_priority_comes_in_time_when_the_highest_never_runs_out(
    make_queue: MakeQueue, eventually: Eventually
):
    queue = make_queue(priority="strict", starvation_ms=200, visibility_ms=600_000)
    queue.publish("a", "b", priority="background")
    queue.publish(*["urgent"] * 20, priority="critical")
    seen: list[str] = []

    def both_came() -> bool:
        some = queue.receive(5)
        assert len(some) == 5
        queue.settle_all("ack", some)
        queue.publish(*["urgent"] * 5, priority="critical")
        seen.extend(each["value"] for each in some if each["priority"] == "background")
        return len(seen) == 2

    eventually(both_came)
    assert seen == ["a", "b"]


def test_a_group_with_workers_is_not_empty(queue: Queue, server: HttpGroupServer):
    queue.publish("a", "b")
    for name in ("ann", "bob"):
        queue.receive(1, consumer=name, visibility="60s")
    detail = server.get(f"/groups/{queue.group}")
    assert (detail["state"], detail["topics"]) == ("Stable", [queue.topic])
    assert sorted(each["id"] for each in detail["members"]) == ["ann", "bob"]
    assert {each["state"] for each in detail["members"]} == {"Stable"}
    listed = {each["id"]: each for each in server.get("/groups")["groups"]}
    assert (listed[queue.group]["state"], listed[queue.group]["members"]) == ("Stable", 2)


# --- clients that leave ---------------------------------------------------------------------------


def test_a_client_that_leaves_while_it_waits_takes_nothing(queue: Queue, eventually: Eventually):
    queue.receive()
    eventually(lambda: queue.server.connections() == 1)  # those of tests before have left
    with queue.dropped_receive():
        eventually(lambda: queue.server.connections() == 2)
    eventually(lambda: queue.server.connections() == 1)  # the server heard that it left
    queue.publish("a")
    message = queue.one()
    assert (message["attempt"], queue.held()[0]["consumer"]) == (1, "anonymous")


def test_dropped_connections_lose_nothing(make_queue: MakeQueue):
    queue = make_queue(visibility_ms=500, max_timeouts=1_000)
    queue.publish(*(str(number) for number in range(200)))
    for _ in range(20):
        with queue.dropped_receive(count=7):
            pass
    received: set[str] = set()
    while len(received) < 200:
        found = queue.receive(100, wait="5s")
        assert found
        queue.settle_all("ack", found)
        received |= set(values(found))
    assert queue.letters()["count"] == 0


def test_events_come_as_they_are_published_and_stop_when_too_many_are_held(make_queue: MakeQueue):
    queue = make_queue(max_in_flight_consumer=2, visibility_ms=60_000)
    queue.publish("a", "b", "c")
    query = {"group": queue.group, "consumer": "page", "at_once": "1"}
    path = f"/queues/{queue.topic}/stream"
    headers = {"accept": "text/event-stream"}
    with queue.server.client.stream("GET", path, params=query, headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        first, second = _event(lines), _event(lines)
        assert values([first, second]) == ["a", "b"]
        assert len(queue.held()) == 2
        queue.settle("ack", first)
        assert _event(lines)["value"] == "c"
    nowhere = queue.server.client.get("/queues/nowhere/stream", params=query, headers=headers)
    assert nowhere.status_code == 404


def _event(lines: Iterator[str]) -> dict[str, Any]:
    (data,) = itertools.islice((line for line in lines if line.startswith("data: ")), 1)
    found: dict[str, Any] = json.loads(data.removeprefix("data: "))
    return found


# --- beside others --------------------------------------------------------------------------------


def test_a_kafka_consumer_reads_the_same_topic_undisturbed(queue: Queue):
    queue.publish("a", "b", "c")
    taken = queue.receive()
    queue.settle("ack", taken[1])
    queue.settle("reject", taken[2], reason="r")
    settings = {"group.id": "stream", "auto.offset.reset": "earliest"}
    consumer = Consumer({**queue.server.bootstrap, **settings})
    consumer.subscribe([queue.topic])
    read: list[bytes | None] = []
    while len(read) < 3:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        read.append(message.value())
    consumer.close()
    assert read == [b"a", b"b", b"c"]
    queue.settle("ack", taken[0])


def test_many_workers_share_the_messages(make_queue: MakeQueue):
    queue = make_queue(4, visibility_ms=60_000)
    for start in range(0, 2_000, 500):
        queue.publish(*(str(number) for number in range(start, start + 500)))
    lock, seen = threading.Lock(), list[str]()

    def work(name: str) -> None:
        while found := queue.receive(37, wait="500ms", consumer=name):
            queue.settle_all("ack", found)
            with lock:
                seen.extend(values(found))

    with concurrent.futures.ThreadPoolExecutor() as threads:
        for done in [threads.submit(work, f"worker-{number}") for number in range(4)]:
            done.result()
    assert sorted(seen, key=int) == [str(number) for number in range(2_000)]


def test_figures_of_a_queue(queue: Queue):
    queue.publish("a", "b")
    first, _ = queue.receive()
    queue.settle("ack", first)
    (group,) = queue.server.get("/reliability/stats", group=queue.group)["groups"]
    assert (group["ready"], group["in_flight"], group["consumers"]) == (0, 1, {"anonymous": 1})
    assert (group["totals"]["delivered"], group["totals"]["acked"]) == (2, 1)
    scraped = queue.server.client.get("/metrics").text
    assert (
        f'goqueue_messages_acked_total{{group="{queue.group}",topic="{queue.topic}"}} 1.0'
        in scraped
    )
    assert "goqueue_queue_in_flight" in scraped


def test_settings_are_set_changed_and_checked(queue: Queue, server: HttpGroupServer):
    path = f"/groups/{queue.group}/queue"
    changed = server.client.patch(path, json={"max_failures": 9}).json()["settings"]
    assert (changed["max_failures"], changed["backoff_base_ms"]) == (9, 50)
    assert server.get(path)["settings"] == changed
    fresh = server.client.put(path, json={}).json()["settings"]
    assert (fresh["max_failures"], fresh["max_timeouts"]) == (5, 20)
    assert fresh["backoff_base_ms"] == 1000
    assert fresh["weights"] == [50, 25, 15, 7, 3]
    for bad in ({"visibility_ms": 0}, {"weights": [1]}, {"ordering": "luck"}, {"nonsense": 1}):
        assert server.client.put(path, json=bad).status_code == 400
