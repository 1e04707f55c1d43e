"""A little of all that a broker does: what its numbers are looked at after."""

import contextlib
import time
from typing import Any

import httpx
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

DEADLINE_SECONDS = 30
QUEUE = {"visibility_ms": 300, "backoff_base_ms": 20, "max_failures": 2, "max_timeouts": 2}


class BusyBroker:
    def __init__(self, http: str, kafka: str) -> None:
        self._http = httpx.Client(base_url=http, trust_env=False, timeout=60)
        self._kafka = {"bootstrap.servers": kafka, "log_level": 0}
        self._open: list[Any] = []  # members and transactions that stay

    def close(self) -> None:
        self._open.clear()
        self._http.close()

    def post(self, path: str, **body: Any) -> Any:
        reply = self._http.post(path, json=body)
        assert reply.status_code in (200, 201, 202, 207), f"{path}: {reply.text}"
        return reply.json()

    def publish(self, topic: str, count: int, **of_each: Any) -> None:
        messages = [{"value": f"v{number}", **of_each} for number in range(count)]
        self.post(f"/topics/{topic}/messages", messages=messages)

    def receive(self, topic: str, count: int = 1, **more: Any) -> list[str]:
        """Receipts of the messages that come."""
        body = {"group": "workers", "consumer": "w", "max_messages": count, "wait": "5s", **more}
        found = self.post(f"/queues/{topic}/receive", **body)["messages"]
        return [each["receipt_handle"] for each in found]

    def settle(self, how: str, receipts: list[str]) -> None:
        why = {"reason": "no"} if how in ("nack", "reject") else {}
        for receipt in receipts:
            self.post(f"/messages/{how}", receipt_handle=receipt, **why)

    # --- what it does -----------------------------------------------------------------------------

    def work_a_queue(self) -> None:
        """Acks, nacks, rejects, releases, time-outs, expiries, retries and dead letters."""
        self.post("/topics", name="jobs", partitions=1)
        self._configure()
        self.publish("jobs", 1, ttl="1ms")
        self.publish("jobs", 6)
        self.publish("jobs", 2, priority="high")
        time.sleep(0.05)  # rule-ok: one of them expires
        self.settle("ack", self.receive("jobs", 2))
        self.settle("nack", self.receive("jobs"))
        self.settle("reject", self.receive("jobs"))
        self.settle("release", self.receive("jobs"))
        self.receive("jobs", visibility="100ms")  # and never answers
        self._wait_for("goqueue_messages_timed_out_total")
        self.settle("nack", self.receive("jobs", 10))
        self.settle("nack", self.receive("jobs", 10))
        self._wait_for("goqueue_messages_dead_lettered_total")
        self.publish("jobs", 5)
        self.receive("jobs", visibility="1h")  # is in flight at the end, the others are ready
        self._configure(backoff_base_ms=60_000, backoff_max_ms=60_000, max_failures=100)
        self.settle("nack", self.receive("jobs"))  # and waits

    def _configure(self, **settings: Any) -> None:
        reply = self._http.put("/groups/workers/queue", json=QUEUE | settings)
        assert reply.status_code == 200, reply.text

    def read_a_stream(self) -> None:
        """A Kafka group that commits, and has not finished all; it stays."""
        self.post("/topics", name="clicks", partitions=2)
        producer = Producer(self._kafka)
        for number in range(200):
            producer.produce("clicks", b"x" * 100, key=str(number))
        assert producer.flush(DEADLINE_SECONDS) == 0
        consumer = Consumer(
            {
                **self._kafka,
                "group.id": "readers",
                "client.id": "app",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["clicks"])
        found = list[Any]()
        ends = time.monotonic() + DEADLINE_SECONDS
        while len(found) < 200 and time.monotonic() < ends:
            found += consumer.consume(200, 1)
        first: dict[int, int] = {}
        for message in found:
            first.setdefault(message.partition(), message.offset() + 1)
        offsets = [TopicPartition("clicks", index, offset) for index, offset in first.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        self._open.append(consumer)

    def delay_and_schedule(self) -> None:
        self.publish("clicks", 3, delay="50ms")
        self.publish("clicks", 2, delay="1h")
        message = {"value": "tick"}
        self.post("/schedules", name="tick", topic="clicks", message=message, every="1s")
        self.post("/schedules/tick/run")

    def transact(self) -> None:
        producer = Producer({**self._kafka, "transactional.id": "t"})
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
        producer.produce("clicks", b"x")
        producer.commit_transaction(DEADLINE_SECONDS)
        producer.begin_transaction()  # and stays open
        producer.produce("clicks", b"x")
        producer.flush(DEADLINE_SECONDS)
        self._open.append(producer)

    def be_refused(self) -> None:
        self._http.post(
            "/topics/clicks/messages", json={"messages": [{"value": 1, "partition": 9}]}
        )
        producer = Producer({**self._kafka, "message.max.bytes": 10_000_000})
        producer.produce("clicks", b"x" * 3_000_000)
        with contextlib.suppress(KafkaException):
            producer.flush(DEADLINE_SECONDS)

    def do_everything(self) -> None:
        self.read_a_stream()
        self.work_a_queue()
        self.delay_and_schedule()
        self.transact()
        self.be_refused()

    def _wait_for(self, metric: str) -> None:
        ends = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < ends:
            values = [
                float(line.rpartition(" ")[2])
                for line in self._http.get("/metrics").text.splitlines()
                if line.startswith(metric + "{")
            ]
            if any(values):
                return
        raise AssertionError(f"{metric} stays 0")
