"""Where did my message go?  Each lifecycle from outside: the steps, their order, their times."""

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server

DEADLINE_SECONDS = 30
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PUBLISH = ["publish.received", "publish.validated", "publish.persisted"]
AROUND = frozenset({"group.rebalanced", "leader.changed"})

Eventually = Callable[..., None]


class Api:
    def __init__(self, address: str) -> None:
        self._client = httpx.Client(
            base_url=f"http://{address}",
            trust_env=False,
            timeout=60,
            headers={"x-client-id": "shop"},
        )

    def post(self, path: str, **body: Any) -> Any:
        reply = self._client.post(path, json=body)
        assert reply.status_code in (200, 201), reply.text
        return reply.json()

    def put(self, path: str, **body: Any) -> None:
        assert self._client.put(path, json=body).status_code == 200

    def get(self, path: str, **query: Any) -> Any:
        reply = self._client.get(path, params=query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def status(self, path: str) -> int:
        return self._client.get(path).status_code

    def publish(self, topic: str, *values: str, **of_each: Any) -> list[Any]:
        messages = [{"value": value, **of_each} for value in values]
        found: list[Any] = self.post(f"/topics/{topic}/messages", messages=messages)["results"]
        return found

    def receive(self, topic: str, consumer: str, **more: Any) -> list[Any]:
        """Waits for the first one."""
        ends = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < ends:
            body = {"group": "g", "consumer": consumer, "wait": "5s", **more}
            found: list[Any] = self.post(f"/queues/{topic}/receive", **body)["messages"]
            if found:
                return found
        raise AssertionError("nothing came")

    def journey(self, topic: str, offset: int, partition: int = 0) -> Any:
        return self.get(f"/messages/{topic}/{partition}/{offset}/journey")

    def steps(self, topic: str, offset: int) -> list[str]:
        return steps_of(self.journey(topic, offset))


def steps_of(journey: Any) -> list[str]:
    found = [each["event_type"] for each in journey["spans"]]
    return [each for each in found if each not in AROUND]


def times_of(journey: Any) -> list[float]:
    return [datetime.fromisoformat(each["timestamp"]).timestamp() for each in journey["spans"]]


@pytest.fixture
def api(server: Server) -> Api:
    return Api(server.http_address)


LIFE = [
    *PUBLISH,
    "consume.fetched",  # by a worker that crashes
    "visibility.timeout",
    "retry.scheduled",
    "consume.fetched",
    "consume.nacked",
    "retry.scheduled",
    "consume.fetched",
    "consume.nacked",
    "publish.persisted",  # among the dead letters
    "dlq.routed",
    "dlq.redriven",
    "publish.persisted",  # in the topic again
    "consume.fetched",
    "consume.acked",
]


def live(api: Api, topic: str) -> tuple[float, float]:
    """The whole life of message 0; gives when it began and ended."""
    began = time.time()
    settings = {"visibility_ms": 300, "backoff_base_ms": 50, "max_failures": 2}
    api.put("/groups/g/queue", **settings)
    api.publish(topic, "x", key="k1")
    api.receive(topic, "crashed")
    for reason in ("card declined", "again"):
        found = api.receive(topic, "worker", visibility="30s")
        api.post("/messages/nack", receipt_handle=found[0]["receipt_handle"], reason=reason)
    while not api.get(f"/topics/{topic}/dlq").get("count"):
        api.get("/readyz")  # a round trip later
    assert api.post(f"/topics/{topic}/dlq/redrive")["moved"] == 1
    found = api.receive(topic, "last", visibility="30s")
    api.post("/messages/ack", receipt_handle=found[0]["receipt_handle"])
    return began, time.time()


def check_life(
    journey: Any, topic: str, began: float, ended: float, publish: Sequence[str] = PUBLISH
) -> None:
    assert steps_of(journey) == [*publish, *LIFE[len(PUBLISH) :]]
    times = times_of(journey)
    assert times == sorted(times)
    assert began - 0.01 <= times[0] <= times[-1] <= ended + 0.01
    spans = [each for each in journey["spans"] if each["event_type"] not in AROUND]
    assert (spans[0]["client_id"], spans[0]["address"].split(":")[0]) == ("shop", "127.0.0.1")
    taken = [each for each in spans if each["event_type"] == "consume.fetched"]
    assert [(each["consumer_id"], each["attempt"]) for each in taken] == [
        ("crashed", 1),
        ("worker", 2),
        ("worker", 3),
        ("last", 1),
    ]
    assert times[spans.index(taken[1])] - times[spans.index(taken[0])] >= 0.3  # its visibility
    nacked = [each for each in spans if each["event_type"] == "consume.nacked"]
    assert [each["error"] for each in nacked] == ["card declined", "again"]
    links = [each["link"] for each in spans if "link" in each]
    assert links == [
        {"topic": f"{topic}.dlq", "partition": 0, "offset": 0},
        {"topic": topic, "partition": 0, "offset": 1},
    ]
    assert (journey["status"], journey["groups"]) == ("completed", {"g": "completed"})


def test_a_whole_life_is_told_at_each_of_its_places_and_after_restarts(
    own_server: Server, eventually: Eventually
):
    api, topic = Api(own_server.http_address), "orders"
    api.post("/topics", name=topic, partitions=1)
    began, ended = live(api, topic)
    journey = api.journey(topic, 0)
    check_life(journey, topic, began, ended)
    for place in ((topic, 1), (f"{topic}.dlq", 0)):
        check_life(api.journey(*place), topic, began, ended)
    assert api.get(f"/traces/{journey['trace_id']}") == api.journey(topic, 0)
    own_server.stop()
    api = Api(own_server.start().http_address)
    check_life(api.journey(topic, 0), topic, began, ended)
    assert api.journey(topic, 0)["spans"] == journey["spans"]
    api.publish(topic, "y")

    def is_written() -> bool:
        (node,) = api.get("/traces/stats")["nodes"]
        return bool(node["recorded_total"] and node["pending"] == 0 and node["written_total"])

    eventually(is_written)
    own_server.kill()
    api = Api(own_server.start().http_address)
    check_life(api.journey(topic, 0), topic, began, ended)
    assert api.steps(topic, 2) == PUBLISH


def test_a_message_whose_events_are_gone_is_told_from_the_log(own_server: Server):
    api = Api(own_server.http_address)
    api.post("/topics", name="quiet", partitions=1, settings={"goqueue.trace.enable": "false"})
    api.publish("quiet", "x")
    (step,) = api.journey("quiet", 0)["spans"]
    assert (step["event_type"], step["derived"]) == ("publish.persisted", True)
    assert api.get("/traces")["total"] == 0
    assert api.status("/messages/quiet/0/9/journey") == 404
    assert api.status("/messages/quiet/7/0/journey") == 404
    assert api.status("/messages/nothing/0/0/journey") == 404
    assert api.status("/traces/nonsense") == 400
    assert api.status(f"/traces/{TRACE}") == 404


def consume(server: Server, topic: str, count: int, **settings: Any) -> list[Any]:
    consumer = Consumer(
        {
            **server.bootstrap,
            "group.id": "readers",
            "client.id": "app",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    ends = time.monotonic() + DEADLINE_SECONDS
    while len(found) < count and time.monotonic() < ends:
        message = consumer.poll(1)
        if message is not None and not message.error():
            found.append(message)
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_kafka_clients_are_named_with_their_group_and_their_trace(
    server: Server, api: Api, topic: str, eventually: Eventually
):
    producer = Producer({**server.bootstrap, "client.id": "till"})
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    producer.produce(topic, "a", headers=headers)
    producer.produce(topic, "b")
    assert producer.flush(DEADLINE_SECONDS) == 0
    consume(server, topic, 2)
    journey = api.journey(topic, 0)
    assert steps_of(journey) == [*PUBLISH, "consume.fetched", "consume.acked"]
    assert (journey["trace_id"], journey["parent_span_id"]) == (TRACE, SPAN)
    assert journey["spans"][0]["parent_span_id"] == SPAN
    by_event = {each["event_type"]: each for each in journey["spans"]}
    assert by_event["publish.received"]["client_id"] == "till"
    assert by_event["consume.fetched"]["client_id"] == "app"
    assert by_event["consume.fetched"]["consumer_group"] == "readers"
    assert by_event["consume.acked"]["consumer_group"] == "readers"
    assert journey["status"] == "completed"
    eventually(lambda: api.status(f"/traces/{TRACE}") == 200)
    assert api.get(f"/traces/{TRACE}")["offset"] == 0
    other = api.journey(topic, 1)
    assert api.get(f"/traces/{other['trace_id']}")["offset"] == 1


def test_a_delayed_message_is_told_from_its_publish_on(api: Api, topic: str):
    (sent, cancelled) = api.publish(topic, "x", "y", delay="200ms")
    api.receive(topic, "w")
    journey = api.journey(topic, 0)
    assert steps_of(journey) == [
        *PUBLISH,
        "delay.scheduled",
        "publish.persisted",
        "delay.ready",
        "consume.fetched",
    ]
    places = [(each.get("space", "data"), each["offset"]) for each in journey["spans"]]
    assert places[0] == ("delays", sent["offset"])
    assert places[-1] == ("data", 0)
    assert cancelled["offset"] == 1


def test_a_message_waits_until_it_is_cancelled(server: Server, api: Api, topic: str):
    api.publish(topic, "x", delay="1h")

    def find() -> Any:
        found = api.get("/traces/search", topic=topic)["traces"]
        return found[0] if found else {"status": ""}

    assert find()["status"] in ("delayed", "pending")
    assert find()["space"] == "delays"
    reply = httpx.delete(
        f"http://{server.http_address}/topics/{topic}/delayed/0/0", trust_env=False
    )
    assert reply.status_code == 200
    found = api.get(f"/traces/{find()['trace_id']}")
    assert steps_of(found) == [*PUBLISH, "delay.scheduled", "delay.cancelled"]
    assert found["status"] == "completed"


def test_the_end_of_a_transaction_is_told(server: Server, api: Api, topic: str):
    producer = Producer({**server.bootstrap, "transactional.id": topic})
    producer.init_transactions(DEADLINE_SECONDS)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(topic, "x")
        assert producer.flush(DEADLINE_SECONDS) == 0
        end(DEADLINE_SECONDS)
    assert api.steps(topic, 0) == [*PUBLISH, "txn.committed"]
    aborted = api.journey(topic, 2)
    assert (steps_of(aborted), aborted["status"]) == ([*PUBLISH, "txn.aborted"], "error")


def test_a_refused_publish_is_found(server: Server, api: Api, make_topic: MakeTopic):
    topic = make_topic(**{"max.message.bytes": 200})
    producer = Producer({**server.bootstrap, "client.id": "loud"})
    producer.produce(topic, "x" * 500)
    with contextlib.suppress(KafkaException):
        producer.flush(DEADLINE_SECONDS)
    (found,) = api.get("/traces/search", topic=topic, status="error")["traces"]
    assert (found["offset"], found["last_event"]) == (-1, "publish.rejected")
    (step,) = api.get(f"/traces/{found['trace_id']}")["spans"]
    assert step["client_id"] == "loud"
    assert "max.message.bytes" in step["error"]


def test_journeys_are_found_by_what_is_known_of_them(api: Api, topic: str):
    api.publish(topic, *"abc", key="k")
    api.publish(topic, "d", key="other")
    (taken,) = api.receive(topic, "w7", max_messages=1)
    api.post("/messages/ack", receipt_handle=taken["receipt_handle"])

    def offsets(**query: Any) -> list[int]:
        found = api.get("/traces/search", topic=topic, **query)["traces"]
        return [each["offset"] for each in found]

    assert offsets() == [0, 3, 2, 1]  # the newest step first
    assert offsets(limit=2) == [0, 3]
    assert offsets(consumer="w7") == offsets(consumer_group="g") == [0]
    assert offsets(status="completed") == [0]
    assert sorted(offsets(status="pending")) == [1, 2, 3]
    assert offsets(key="k") == [2, 1, 0]
    assert offsets(key="k", status="completed") == [0]
    assert offsets(min_duration="1h") == []
    assert offsets(start=str(int(time.time() * 1000) + 3_600_000)) == []
    assert api.status("/traces/search?key=k") == 400
    assert api.status("/traces/search?status=lost") == 400


def test_a_topic_may_be_sampled(server: Server, api: Api, make_topic: MakeTopic):
    topic = make_topic(**{"goqueue.trace.sample.rate": 0.25})
    for _ in range(40):
        api.publish(topic, *["x"] * 128)  # two batches to a block of offsets
    stored = {
        each["offset"] // 256
        for each in api.get("/traces/search", topic=topic, limit=1000)["traces"]
    }
    assert 0 < len(stored) < 15
