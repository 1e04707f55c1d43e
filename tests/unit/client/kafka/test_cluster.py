"""Who leads what, and which broker is asked."""

import contextlib
import socket
from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.errors import ServerUnreachable
from goqueue.client.kafka import LATEST, KafkaClient, Node
from goqueue.client.kafka.cluster import parse_bootstrap
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey
from tests.unit.client.kafka.fake_kafka import WHERE, FakeKafka, described, offsets


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


def test_a_broker_that_another_one_told_of_is_asked_when_that_one_is_gone():
    with FakeKafka(lambda fake, api: described(fake.node)) as other:
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(FakeKafka(lambda fake, api: described(other.node)))
            client = KafkaClient(str(first.node), timeout_s=5)
            client.metadata()
            client.close()
        with client:
            assert client.metadata().keys() == {"t"}


def test_addresses():
    parse = partial(map, str)
    assert list(parse(parse_bootstrap("a:1, b ,[::1]:3,[fe80::1]"))) == [
        "a:1",
        "b:9092",
        "[::1]:3",
        "[fe80::1]:9092",
    ]
