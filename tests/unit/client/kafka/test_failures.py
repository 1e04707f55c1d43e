"""The blocking client among brokers that fail, move, or talk nonsense."""

import socket
from functools import partial

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from goqueue.client.errors import BadAnswer, NoAnswer, ServerUnreachable
from goqueue.client.kafka import LATEST, KafkaClient, KafkaRefused, Node
from goqueue.client.kafka.cluster import parse_bootstrap
from goqueue.client.kafka.reading import next_offset
from goqueue.model.batch import encode
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.wire import shapes
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build
from tests.unit.client.kafka.fake_kafka import CLOSE, SILENCE, FakeKafka

WHERE = TopicPartition(TopicName("t"), 0)


def described(*leaders: Node) -> MetadataResponse:
    """A topic `t` whose partitions are led by these."""
    return build(
        MetadataResponse,
        brokers=tuple(
            build(MetadataResponseBroker, node_id=index, host=node.host, port=node.port)
            for index, node in enumerate(leaders)
        ),
        topics=(
            build(
                MetadataResponseTopic,
                name="t",
                partitions=tuple(
                    build(MetadataResponsePartition, partition_index=index, leader_id=index)
                    for index in range(len(leaders))
                ),
            ),
        ),
    )


def offsets(*found: tuple[int, int], code: ErrorCode = ErrorCode.none) -> ListOffsetsResponse:
    partitions = tuple(
        build(ListOffsetsPartitionResponse, partition_index=index, offset=offset, error_code=code)
        for index, offset in found
    )
    topic = build(ListOffsetsTopicResponse, name="t", partitions=partitions)
    return build(ListOffsetsResponse, topics=(topic,))


def test_each_partition_is_asked_of_its_leader():
    with (
        FakeKafka(lambda fake, api: offsets((1, 20))) as second,
        FakeKafka(
            lambda fake, api: (
                described(fake.node, second.node) if api is ApiKey.METADATA else offsets((0, 10))
            )
        ) as first,
        KafkaClient(str(first.node), timeout_s=5) as client,
    ):
        found = client.list_offsets({WHERE: LATEST, TopicPartition(TopicName("t"), 1): LATEST})
    assert {each.partition: answer.offset for each, answer in found.items()} == {0: 10, 1: 20}
    assert second.asked == [ApiKey.LIST_OFFSETS]


def test_a_leader_that_moved_is_looked_up_again():
    with FakeKafka(lambda fake, api: offsets((0, 42))) as new:
        answers = iter(
            [
                lambda fake: described(fake.node),
                lambda fake: offsets((0, -1), code=ErrorCode.not_leader_or_follower),
                lambda fake: described(new.node),
            ]
        )
        with (
            FakeKafka(lambda fake, api: next(answers)(fake)) as old,
            KafkaClient(str(old.node), timeout_s=5) as client,
        ):
            assert client.list_offsets({WHERE: LATEST})[WHERE].offset == 42


def test_a_connection_that_closes_before_the_answer_is_made_anew():
    answers = iter(
        [
            lambda fake: CLOSE,
            lambda fake: described(fake.node),
            lambda fake: CLOSE,
            lambda fake: described(fake.node),
            lambda fake: offsets((0, 1)),
        ]
    )
    with (
        FakeKafka(lambda fake, api: next(answers)(fake)) as fake,
        KafkaClient(str(fake.node), timeout_s=5) as client,
    ):
        assert client.list_offsets({WHERE: LATEST})[WHERE].offset == 1


def test_batches_nobody_would_know_again_are_not_sent_again():
    batch = encode([Record(offset=0, timestamp=1, key=None, value=b"v", headers=())])
    with (
        FakeKafka(
            lambda fake, api: described(fake.node) if api is ApiKey.METADATA else CLOSE
        ) as fake,
        KafkaClient(str(fake.node), timeout_s=5) as client,
        pytest.raises(NoAnswer),
    ):
        client.produce({WHERE: [batch]})
    assert fake.asked.count(ApiKey.PRODUCE) == 1


def test_a_broker_that_never_answers_costs_the_deadline_and_no_more():
    with (
        FakeKafka(lambda fake, api: SILENCE) as fake,
        KafkaClient(str(fake.node), timeout_s=0.2) as client,
        pytest.raises(NoAnswer, match=r"within 0\.2 s"),
    ):
        client.metadata()


def test_a_refusal_for_now_becomes_an_error_at_the_deadline():
    with (
        FakeKafka(
            lambda fake, api: (
                described(fake.node)
                if api is ApiKey.METADATA
                else offsets((0, -1), code=ErrorCode.leader_not_available)
            )
        ) as fake,
        KafkaClient(str(fake.node), timeout_s=0.3) as client,
        pytest.raises(KafkaRefused) as refused,
    ):
        client.list_offsets({WHERE: LATEST})
    assert refused.value.code is ErrorCode.leader_not_available
    assert fake.asked.count(ApiKey.LIST_OFFSETS) > 1


def test_a_coordinator_that_is_not_ready_is_asked_again():
    codes = iter([ErrorCode.coordinator_load_in_progress, ErrorCode.none])

    def answer(fake, api):
        if api is ApiKey.FIND_COORDINATOR:
            host, port = fake.node
            found = build(Coordinator, key="g", host=host, port=port)
            return build(FindCoordinatorResponse, coordinators=(found,))
        partition = build(
            shapes.OffsetCommitResponsePartition, partition_index=0, error_code=next(codes)
        )
        topic = build(shapes.OffsetCommitResponseTopic, name="t", partitions=(partition,))
        return build(shapes.OffsetCommitResponse, topics=(topic,))

    with FakeKafka(answer) as fake, KafkaClient(str(fake.node), timeout_s=5) as client:
        client.commit_offsets("g", {WHERE: 1})
    assert fake.asked.count(ApiKey.OFFSET_COMMIT) == 2


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(b"\x7f\xff\xff\xff", id="two-gigabytes"),
        pytest.param(b"\x00\x00\x00\x01", id="too-short"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", id="http"),
        pytest.param(b"\x00\x00\x00\x08\x00\x00\x00\x63\x00abc", id="another-request"),
        pytest.param(b"\x00\x00\x00\x08\x00\x00\x00\x01\x00abc", id="no-metadata"),
    ],
)
def test_who_talks_nonsense_is_no_broker(nonsense):
    with (
        FakeKafka(lambda fake, api: nonsense) as fake,
        KafkaClient(str(fake.node), timeout_s=5) as client,
        pytest.raises(BadAnswer),
    ):
        client.metadata()


def test_the_next_address_is_tried_when_one_is_dead():
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead = Node(*free.getsockname()[:2])
    with (
        FakeKafka(lambda fake, api: described(fake.node)) as fake,
        KafkaClient(f"{dead},{fake.node}", timeout_s=5) as client,
    ):
        assert client.metadata().keys() == {"t"}
    with (
        KafkaClient(str(dead), timeout_s=0.1) as client,
        pytest.raises(ServerUnreachable, match="no Kafka listener"),
    ):
        client.metadata()


def test_addresses():
    parse = partial(map, str)
    assert list(parse(parse_bootstrap("a:1, b ,[::1]:3,[fe80::1]"))) == [
        "a:1",
        "b:9092",
        "[::1]:3",
        "[fe80::1]:9092",
    ]


def test_batches_that_do_not_lead_on_are_an_error_and_no_loop():
    batch = encode([Record(offset=0, timestamp=1, key=None, value=b"v", headers=())], base_offset=3)
    assert next_offset(memoryview(batch), 0) == 4
    assert next_offset(memoryview(batch)[:-1], 0) == 0, "one that is cut off does not count"
    with pytest.raises(BadAnswer, match="offset 3 after offset 9"):
        next_offset(memoryview(batch), 9)
    nonsense = bytearray(batch)
    nonsense[8:12] = bytes(4)
    with pytest.raises(BadAnswer):
        next_offset(memoryview(nonsense), 0)
