"""Fills a broker with a bit of everything, so that a later version can be given its data directory.

    python -m tests.conformance.old_directory KAFKA_ADDRESS HTTP_ADDRESS

It is run once for a version whose directories must open for ever.  The broker is then killed with
-9, and its directory packed: `tar czf tests/conformance/directories/COMMIT.tar.gz -C DATA .`
`test_old_directories.py` says what is found in it.
"""

import sys
from typing import Any

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

ORDERS = 300
JOBS = 20
ACKED = (0, 1, 3, 4, 7)
REJECTED = (5, 8, 9)
NACKED = (2, 10)
RESULTS = 10
SETTINGS = {
    "visibility_ms": 3_600_000,
    "max_failures": 7,
    "backoff_base_ms": 1,
    "backoff_max_ms": 1,
}
ENDED_BY_NOBODY_MS = 1_000
KEPT = {"retention.ms": "-1"}


def fill(kafka: str, http: str) -> None:
    _create_topics(kafka)
    _fill_streams(kafka)
    with httpx.Client(base_url=f"http://{http}", timeout=60.0) as client:
        _fill_queue(client)
    _fill_transactions(kafka)


def _create_topics(kafka: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka})
    made = admin.create_topics(
        [
            NewTopic("orders", 3, config=KEPT),
            NewTopic("prices", 1, config={"cleanup.policy": "compact"}),
            NewTopic("jobs", 2, config=KEPT),
            NewTopic("results", 1, config=KEPT),
        ]
    )
    for each in made.values():
        each.result()


def _fill_streams(kafka: str) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka, "enable.idempotence": True, "compression.type": "lz4"}
    )
    for number in range(ORDERS):
        producer.produce("orders", f"order {number}", key=f"customer {number % 7}")
        producer.produce("prices", f"{number}", key=f"product {number % 5}")
    producer.flush()
    _commit(kafka, "readers", {0: 10, 1: 20, 2: 30})


def _commit(kafka: str, group: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group})
    partitions = [TopicPartition("orders", index, at) for index, at in offsets.items()]
    consumer.commit(offsets=partitions, asynchronous=False)
    consumer.close()


def _fill_queue(client: httpx.Client) -> None:
    _call(client, "PUT", "/groups/billing/queue", SETTINGS)
    for number in range(JOBS):
        message = {"value": f"job {number}", "key": f"key {number}", "partition": number % 2}
        message["priority"] = "high" if number % 5 == 0 else "normal"
        _call(client, "POST", "/topics/jobs/messages", {"messages": [message]})
    body = {"group": "billing", "max_messages": JOBS, "consumer": "worker"}
    received = _call(client, "POST", "/queues/jobs/receive", body)["messages"]
    handles = {int(each["value"].split()[1]): each["receipt_handle"] for each in received}
    assert len(handles) == JOBS
    why = {"reason": "not this one"}
    for verb, numbers, fields in (
        ("ack", ACKED, {}),
        ("reject", REJECTED, why),
        ("nack", NACKED, why),
    ):
        chosen = [handles[number] for number in numbers]
        _call(client, "POST", f"/messages/{verb}", {"receipt_handles": chosen, **fields})


def _call(client: httpx.Client, method: str, path: str, body: dict[str, Any]) -> Any:
    answer = client.request(method, path, json=body)
    assert answer.status_code < 300, answer.text
    return answer.json()


def _fill_transactions(kafka: str) -> None:
    for outcome in ("committed", "aborted", "open"):
        producer = Producer(
            {
                "bootstrap.servers": kafka,
                "transactional.id": f"{outcome}-by-now",
                "transaction.timeout.ms": ENDED_BY_NOBODY_MS if outcome == "open" else 60_000,
            }
        )
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(RESULTS):
            producer.produce("results", f"{outcome} {number}")
        producer.flush()
        _send_offsets(kafka, producer, outcome)
        if outcome == "committed":
            producer.commit_transaction()
        elif outcome == "aborted":
            producer.abort_transaction()


def _send_offsets(kafka: str, producer: Producer, outcome: str) -> None:
    group = f"group of {outcome}"
    _commit(kafka, group, {0: 1})
    reader = Consumer({"bootstrap.servers": kafka, "group.id": group})
    producer.send_offsets_to_transaction(
        [TopicPartition("orders", 0, 5)], reader.consumer_group_metadata()
    )
    reader.close()


if __name__ == "__main__":
    fill(sys.argv[1], sys.argv[2])
