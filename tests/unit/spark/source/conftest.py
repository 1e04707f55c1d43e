"""A broker on a thread for what reads and follows topics without Spark."""

from collections.abc import Callable, Iterator

import pytest

import goqueue
from goqueue.client.kafka import KafkaClient
from goqueue.embedding import BrokerInThread
from goqueue.model.batch import encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record

START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[BrokerInThread]:
    with goqueue.embedded(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.fixture
def client(broker: BrokerInThread) -> Iterator[KafkaClient]:
    with KafkaClient(broker.kafka, timeout_s=10) as client:
        yield client


@pytest.fixture
def topic(client: KafkaClient, request: pytest.FixtureRequest) -> str:
    """A topic of two partitions, named for its test."""
    name = str(request.node.name)[:200].replace("[", "-").replace("]", "")
    client.create_topic(name, partitions=2, settings={"retention.ms": "-1"})
    return name


@pytest.fixture
def fill(client: KafkaClient) -> Callable[..., None]:
    """`fill(topic, partition, *values)` writes a batch."""

    def fill(
        topic: str, partition: int, *values: str, producer=(-1, -1, -1), transaction=None, **rest
    ) -> None:
        records = [
            Record(offset=index, timestamp=START_MS + index, key=None, value=each.encode())
            for index, each in enumerate(values)
        ]
        batch = encode(records, producer=producer, **rest)
        client.produce(
            {TopicPartition(TopicName(topic), partition): [batch]}, transactional_id=transaction
        )

    return fill
