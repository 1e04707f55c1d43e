"""The blocking client and a real broker."""

from collections.abc import Iterator

import pytest
from kio.schema.errors import ErrorCode

import goqueue
from goqueue.client.errors import ServerUnreachable
from goqueue.client.kafka import (
    EARLIEST,
    LATEST,
    KafkaClient,
    KafkaRefused,
    OffsetFound,
    ProducerId,
)
from goqueue.embedding import BrokerInThread
from goqueue.model.batch import TRANSACTIONAL, decode_all, encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[BrokerInThread]:
    with goqueue.embedded(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.fixture
def client(broker: BrokerInThread) -> Iterator[KafkaClient]:
    with KafkaClient(broker.kafka) as client:
        yield client


@pytest.fixture
def topic(client: KafkaClient, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)[:200].replace("[", "-").replace("]", "")
    client.create_topic(name, partitions=2)
    return name


def batch_of(
    *values: bytes,
    timestamp: int = START,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
) -> bytearray:
    records = [
        Record(offset=index, timestamp=timestamp + index, key=b"k", value=value, headers=())
        for index, value in enumerate(values)
    ]
    return encode(records, producer=producer, attributes=attributes)


def values_of(client: KafkaClient, topic: str, partition: int = 0, offset: int = 0) -> list:
    fetched = client.fetch(topic, partition, offset)
    return [record.value for record in decode_all(fetched.records)]


def test_what_is_produced_is_fetched(client, topic):
    produced = client.produce(
        {
            TopicPartition(topic, 0): [batch_of(b"a", b"b"), batch_of(b"c")],
            TopicPartition(topic, 1): [batch_of(b"d")],
        }
    )
    assert {each.partition: where.base_offset for each, where in produced.items()} == {0: 0, 1: 0}
    assert values_of(client, topic) == [b"a", b"b", b"c"]
    assert values_of(client, topic, 1) == [b"d"]
    fetched = client.fetch(topic, 0, 3)
    assert fetched.records == b""
    assert (fetched.log_start_offset, fetched.high_watermark) == (0, 3)


def test_metadata_names_topics_and_their_leaders(broker, client, topic):
    layout = client.metadata([topic])[topic]
    assert layout.partition_count == 2
    assert layout.partitions == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert {str(node) for node in layout.leaders.values()} == {broker.kafka}
    assert topic in client.metadata()


def test_an_unknown_topic_is_refused_and_not_created(client):
    for call in (
        lambda: client.metadata(["nobody"]),
        lambda: client.fetch("nobody", 0, 0),
        lambda: client.produce({TopicPartition(TopicName("nobody"), 0): [batch_of(b"x")]}),
    ):
        with pytest.raises(KafkaRefused) as refused:
            call()
        assert refused.value.code is ErrorCode.unknown_topic_or_partition
    assert "nobody" not in client.metadata()


def test_an_unknown_topic_is_created_when_that_is_asked_for(client):
    layout = client.metadata(["made-when-asked"], creates=True)["made-when-asked"]
    assert layout.partition_count == 3
    client.produce({TopicPartition(TopicName("made-when-asked"), 2): [batch_of(b"x")]})


def test_an_unknown_partition_is_refused(client, topic):
    with pytest.raises(KafkaRefused, match="has 2 partitions"):
        client.fetch(topic, 7, 0)


def test_partitions_that_are_added_are_found(client, topic):
    client.add_partitions(topic, total=4)
    client.produce({TopicPartition(topic, 3): [batch_of(b"late")]})
    assert values_of(client, topic, 3) == [b"late"]


def test_a_batch_sent_twice_is_there_once(client, topic):
    producer = client.init_producer()
    batch = batch_of(b"once", producer=(producer.producer_id, producer.epoch, 0))
    for _ in range(2):
        client.produce({TopicPartition(topic, 0): [bytes(batch)]})
    assert values_of(client, topic) == [b"once"]


def test_offsets_are_found_by_time_and_at_both_ends(client, topic):
    client.produce({TopicPartition(topic, 0): [batch_of(b"a", b"b", timestamp=START)]})
    client.produce({TopicPartition(topic, 0): [batch_of(b"c", timestamp=START + 1000)]})
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert client.list_offsets({first: EARLIEST, second: LATEST}) == {
        first: OffsetFound(0, -1),
        second: OffsetFound(0, -1),
    }
    assert client.list_offsets({first: LATEST})[first].offset == 3
    assert client.list_offsets({first: START + 1})[first] == OffsetFound(1, START + 1)
    assert client.list_offsets({first: START + 2})[first] == OffsetFound(2, START + 1000)
    assert client.list_offsets({first: START + 5000})[first] == OffsetFound(-1, -1)


def test_readers_of_what_is_committed_stop_before_an_open_transaction(client, topic):
    where = TopicPartition(topic, 0)
    client.produce({where: [batch_of(b"plain")]})
    first = client.init_producer("writer")
    client.produce({where: [transactional(first, b"lost")]}, transactional_id="writer")
    assert client.list_offsets({where: LATEST})[where].offset == 1
    assert client.list_offsets({where: LATEST}, read_committed=False)[where].offset == 2
    assert values_of(client, topic) == [b"plain"]
    client.init_producer("writer")  # a new run: what the old one left open is aborted
    fetched = client.fetch(topic, 0, 0)
    assert [(each.producer_id, each.first_offset) for each in fetched.aborted] == [
        (first.producer_id, 1)
    ]
    with pytest.raises(KafkaRefused) as refused:
        client.produce({where: [transactional(first, b"zombie")]}, transactional_id="writer")
    assert not refused.value.is_retriable


def transactional(producer: ProducerId, value: bytes) -> bytearray:
    return batch_of(
        value, producer=(producer.producer_id, producer.epoch, 0), attributes=TRANSACTIONAL
    )


def test_a_groups_offsets_are_set_and_read(client, topic):
    offsets = {TopicPartition(topic, 0): 7, TopicPartition(topic, 1): 0}
    client.commit_offsets("spark", offsets)
    assert client.committed_offsets("spark") == offsets
    assert client.committed_offsets("nobody") == {}


def test_settings_are_described(client, topic):
    settings = client.describe_configs("topic", topic)
    assert settings["cleanup.policy"] == "delete"
    assert client.describe_configs("broker", "1")["log.segment.bytes"]


def test_the_http_listener_is_found(broker, client):
    assert client.http_url() == broker.http


def test_a_topic_is_made_once_and_can_be_deleted(client, topic):
    with pytest.raises(KafkaRefused) as refused:
        client.create_topic(topic)
    assert refused.value.code is ErrorCode.topic_already_exists
    client.delete_topic(topic)
    assert topic not in client.metadata()


def test_a_fetch_waits_for_what_comes(broker, client, topic):
    broker.publish(topic, goqueue.Message("now", partition=0))
    assert values_of(client, topic) == [b"now"]
    assert client.fetch(topic, 0, 1, wait_ms=10).records == b""


def fetched_offsets(fetches):
    return [record.offset for fetched in fetches for record in decode_all(fetched.records)]


def test_a_range_is_fetched_to_its_end_and_no_further(client, topic):
    where = TopicPartition(topic, 0)
    for _ in range(20):
        client.produce({where: [batch_of(b"x" * 1000, b"y" * 1000)]})
    fetches = list(client.fetch_range(topic, 0, 3, 31, bytes_max=5000))
    assert len(fetches) > 5
    offsets = fetched_offsets(fetches)
    assert (offsets[0], offsets[-1]) == (2, offsets[0] + len(offsets) - 1), "batches are whole"
    assert 30 <= offsets[-1] < 36


def test_a_range_that_ends_behind_the_log_ends_with_an_empty_answer(client, topic):
    client.produce({TopicPartition(topic, 0): [batch_of(b"a")]})
    *_, last = client.fetch_range(topic, 0, 0, 99)
    assert last.records == b""
    assert last.high_watermark == 1


def test_a_client_is_of_use_after_a_range_was_left_early(client, topic):
    where = TopicPartition(topic, 0)
    for _ in range(20):
        client.produce({where: [batch_of(b"x" * 1000)]})
    fetches = client.fetch_range(topic, 0, 0, 20, bytes_max=2000)
    next(fetches)
    fetches.close()
    assert client.list_offsets({where: LATEST})[where].offset == 20


def test_a_restart_in_the_middle_of_a_range_is_not_noticed(tmp_path):
    with goqueue.embedded(tmp_path) as broker:
        address = broker.kafka
        client = KafkaClient(address)
        client.create_topic("t", partitions=1)
        for _ in range(50):
            client.produce({TopicPartition(TopicName("t"), 0): [batch_of(b"x" * 1000)]})
        fetches = client.fetch_range("t", 0, 0, 50, bytes_max=3000)
        offsets = fetched_offsets([next(fetches), next(fetches)])
    with goqueue.embedded(tmp_path, kafka={"listen": address}), client:
        assert offsets + fetched_offsets(fetches) == list(range(50))


def test_a_restart_between_two_calls_is_not_noticed(tmp_path):
    with goqueue.embedded(tmp_path) as broker:
        address = broker.kafka
        client = KafkaClient(address)
        client.create_topic("t", partitions=1)
        client.produce({TopicPartition(TopicName("t"), 0): [batch_of(b"before")]})
    with goqueue.embedded(tmp_path, kafka={"listen": address}), client:
        assert values_of(client, "t") == [b"before"]


@pytest.mark.parametrize("address", ["", " , ", "host:port", "host:0", ":9092"])
def test_a_bootstrap_address_that_is_none_is_said_so(address):
    with pytest.raises(ServerUnreachable, match=r"bootstrap\.servers"):
        KafkaClient(address)
