"""librdkafka's share consumer, as confluent-kafka has it, against the broker."""

import subprocess
import sys
import time
from collections import Counter

import confluent_kafka
import pytest
from confluent_kafka import Producer

from tests.conformance.conftest import MakeTopic
from tests.conformance.server import Server
from tests.conformance.shares import set_group

pytestmark = pytest.mark.skipif(
    not hasattr(confluent_kafka, "ShareConsumer"), reason="needs a share consumer"
)
WITHIN_S = 30.0


def consumer(server: Server, group: str, **settings: str) -> "confluent_kafka.ShareConsumer":
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return confluent_kafka.ShareConsumer({**server.bootstrap, "group.id": group, **named})


def publish(server: Server, topic: str, count: int) -> None:
    producer = Producer(server.bootstrap)
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(10) == 0


def test_consumers_share_a_partition(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(1)
    set_group(server, topic, {"share.auto.offset.reset": "earliest"})
    publish(server, topic, 1_000)
    consumers = [consumer(server, topic) for _ in range(2)]
    got: Counter[int] = Counter()
    for each in consumers:
        each.subscribe([topic])
    deadline = time.monotonic() + WITHIN_S
    while len(got) < 1_000 and time.monotonic() < deadline:
        for each in consumers:
            got.update(int(message.value()) for message in each.poll(0.2))
    for each in consumers:
        each.commit_sync(10)
        each.close()
    assert got == Counter(range(1_000))


def test_released_messages_come_back_and_accepted_ones_do_not(
    server: Server, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    set_group(server, topic, {"share.auto.offset.reset": "earliest"})
    publish(server, topic, 10)
    worker = consumer(server, topic, share_acknowledgement_mode="explicit")
    worker.subscribe([topic])
    seen: Counter[int] = Counter()
    deadline = time.monotonic() + WITHIN_S
    while sum(seen.values()) < 15 and time.monotonic() < deadline:
        for message in worker.poll(0.5):
            number = int(message.value())
            again = number % 2 == 1 and not seen[number]
            kind = confluent_kafka.AcknowledgeType
            worker.acknowledge(message, kind.RELEASE if again else kind.ACCEPT)
            seen[number] += 1
        worker.commit_sync(10)
    assert not list(worker.poll(1.0))
    worker.close()
    assert seen == Counter({number: 1 + number % 2 for number in range(10)})


def test_what_a_consumer_acknowledged_before_it_closed_is_done_with(
    server: Server, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    set_group(server, topic, {"share.auto.offset.reset": "earliest"})
    got: Counter[int] = Counter()
    for _ in range(4):
        publish(server, topic, 50)
        worker = consumer(server, topic, share_acknowledgement_mode="explicit")
        worker.subscribe([topic])
        deadline = time.monotonic() + WITHIN_S
        while got.total() < 50 and time.monotonic() < deadline:
            for message in worker.poll(0.5):
                got[int(message.value())] += 1
                worker.acknowledge(message, confluent_kafka.AcknowledgeType.ACCEPT)
        worker.close()  # sends the acknowledgements, and its leave beside them
        assert got == Counter(range(50))
        got.clear()
    last = consumer(server, topic)
    last.subscribe([topic])
    assert not list(last.poll(2.0))
    last.close()


def test_a_consumer_goes_on_after_the_broker_was_killed(own_server: Server) -> None:
    topic = "jobs"
    set_group(own_server, topic, {"share.auto.offset.reset": "earliest"})
    publish(own_server, topic, 10)
    worker = consumer(own_server, topic)
    worker.subscribe([topic])
    got: Counter[int] = Counter()
    deadline = time.monotonic() + WITHIN_S
    while len(got) < 10 and time.monotonic() < deadline:
        got.update(int(message.value()) for message in worker.poll(0.5))
    worker.commit_sync(10)
    own_server.kill()
    own_server.start()
    publish(own_server, topic, 20)
    deadline = time.monotonic() + WITHIN_S
    while len(got) < 20 and time.monotonic() < deadline:
        got.update(int(message.value()) for message in worker.poll(0.5) if not message.error())
    worker.close()
    assert got == Counter(range(10)) + Counter(range(20))


def test_a_message_that_is_always_released_comes_as_often_as_the_limit_says(
    server: Server, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    set_group(server, topic, {"share.auto.offset.reset": "earliest"})
    publish(server, topic, 1)
    worker = consumer(server, topic, share_acknowledgement_mode="explicit")
    worker.subscribe([topic])
    count = 0
    deadline = time.monotonic() + WITHIN_S
    while count < 5 and time.monotonic() < deadline:
        for message in worker.poll(0.5):
            count += 1
            worker.acknowledge(message, confluent_kafka.AcknowledgeType.RELEASE)
        worker.commit_sync(10)
    assert count == 5
    assert not list(worker.poll(1.0)), "a dead letter by now"
    worker.close()


HOLDER = """
import sys, confluent_kafka
worker = confluent_kafka.ShareConsumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
                                        "share.acknowledgement.mode": "explicit"})
worker.subscribe([sys.argv[2]])
while not (held := worker.poll(1.0)):
    pass
print(len(held), flush=True)
sys.stdin.read()
"""


def test_what_a_killed_consumer_held_goes_to_another_at_once(
    server: Server, make_topic: MakeTopic
) -> None:
    topic = make_topic(1)
    settings = {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": "60000"}
    set_group(server, topic, settings)
    publish(server, topic, 10)
    for _ in range(3):
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, server.address, topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) > 0
        holder.kill()
        holder.communicate()
    got: Counter[int] = Counter()
    worker = consumer(server, topic)
    worker.subscribe([topic])
    deadline = time.monotonic() + WITHIN_S
    while len(got) < 10 and time.monotonic() < deadline:
        got.update(int(message.value()) for message in worker.poll(0.5))
    worker.close()
    assert got == Counter(range(10))
