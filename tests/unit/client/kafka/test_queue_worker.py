"""The worker that takes messages by the thousand, and a real broker."""

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

import goqueue
from goqueue import Client
from goqueue.client.kafka import KafkaClient, KafkaRefused, QueueWorker
from goqueue.client.kafka import queue_worker as module
from goqueue.embedding import BrokerInThread
from goqueue.model.batch import encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[BrokerInThread]:
    with goqueue.embedded(tmp_path_factory.mktemp("data")) as broker:
        yield broker


class Queue:
    """A topic with two partitions, a group of its name that begins at the earliest, and workers."""

    def __init__(self, broker: BrokerInThread, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self.client = KafkaClient(broker.kafka)
        self.client.create_topic(topic, partitions=2)
        self.workers: list[QueueWorker] = []
        with Client(broker.http) as client:
            client.change_queue_settings(topic, {"max_in_flight_consumer": 100_000})

    def worker(self, **options) -> QueueWorker:
        made = QueueWorker(self.broker.kafka, self.topic, self.topic, **options)
        self.workers.append(made)
        return made

    def publish(self, count: int, partition: int = 0) -> None:
        records = [Record(0, 0, None, b"%d" % number) for number in range(count)]
        self.client.produce({TopicPartition(TopicName(self.topic), partition): [encode(records)]})

    def in_flight(self) -> int:
        with Client(self.broker.http) as client:
            return len(client.in_flight(self.topic, limit=10_000))

    def close(self) -> None:
        self.client.close()
        for worker in self.workers:
            worker.close()


@pytest.fixture
def queue(broker, request) -> Iterator[Queue]:
    made = Queue(broker, str(request.node.name)[:200])
    yield made
    made.close()


def values(received) -> list[bytes | None]:
    return [record.value for each in received for record in each.records()]


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_thousands_are_received_and_acked_as_ranges(queue):
    worker = queue.worker()
    assert worker.receive(10) == []
    queue.publish(3_000)
    received = worker.receive(2_000, wait_ms=5_000)
    assert [each.spans for each in received] == [((0, 1_999, 1),)]
    assert values(received) == numbers(0, 2_000)
    worker.ack(*received)
    assert values(worker.receive(5_000)) == numbers(2_000, 3_000)
    assert queue.in_flight() == 1_000


def test_what_is_done_is_acked_by_the_next_question(queue):
    queue.publish(20)
    queue.publish(20, partition=1)
    worker = queue.worker()
    first = worker.receive(30)
    assert sum(each.count for each in first) == 30
    second = worker.receive(30, done=first)
    assert sum(each.count for each in second) == 10
    assert worker.receive(30, done=second, wait_ms=1) == []
    assert queue.in_flight() == 0


def test_each_message_goes_to_one_worker(queue):
    queue.publish(100)
    ann, bob = queue.worker(), queue.worker()
    assert values(ann.receive(60)) == numbers(0, 60)
    assert values(bob.receive(60)) == numbers(60, 100)


def test_what_is_given_back_comes_again_and_what_is_rejected_does_not(queue):
    queue.publish(30)
    worker = queue.worker()
    (received,) = worker.receive(10)
    worker.release(received)
    (again,) = worker.receive(10)
    assert again.spans == ((0, 9, 2),)
    worker.renew(again)
    worker.reject(again)
    assert values(worker.receive(10)) == numbers(10, 20)


def test_an_ack_of_what_another_holds_is_refused(queue):
    queue.publish(10)
    ann, bob = queue.worker(), queue.worker()
    received = ann.receive(10)
    for settle in (bob.ack, lambda some: bob.receive(1, done=[some])):
        with pytest.raises(KafkaRefused) as refused:
            settle(*received)
        assert refused.value.code is ErrorCode.invalid_record_state
    ann.ack(*received)


def test_a_lost_session_is_opened_again_and_nothing_is_lost_with_it(queue):
    queue.publish(20)
    worker = queue.worker(consumer="ann")
    received = worker.receive(10)
    sessions = queue.broker.broker.queue_members.sessions
    sessions.close(queue.topic, "ann")
    worker.ack(*received)
    sessions.close(queue.topic, "ann")
    assert values(worker.receive(20)) == numbers(10, 20)


def test_who_leaves_gives_back_what_it_holds(queue):
    queue.publish(10)
    ann, bob = queue.worker(), queue.worker()
    assert values(ann.receive(10)) == numbers(0, 10)
    assert bob.receive(10) == []
    ann.close()
    assert values(bob.receive(10, wait_ms=10_000)) == numbers(0, 10)


def test_partitions_that_are_added_are_found(queue, monkeypatch):
    worker = queue.worker()
    assert worker.receive(10) == []
    queue.client.add_partitions(queue.topic, total=3)
    queue.publish(5, partition=2)
    monkeypatch.setattr(module, "LAYOUT_S_MAX", -1.0)
    assert values(worker.receive(10)) == numbers(0, 5)
