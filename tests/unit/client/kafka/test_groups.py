"""The offsets of a group, seen from outside."""

from types import SimpleNamespace as Answer

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from goqueue.client.kafka import KafkaClient, KafkaRefused
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire import shapes
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build
from tests.unit.client.kafka.fake_cluster import FakeCluster
from tests.unit.client.kafka.fake_kafka import WHERE, FakeKafka


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


def test_offsets_are_committed_to_the_groups_coordinator():
    done = Answer(partition_index=0, error_code=ErrorCode.none)
    cluster = FakeCluster(Answer(topics=(Answer(name="t", partitions=(done,)),)))
    other = TopicPartition(TopicName("u"), 3)
    client_of(cluster).commit_offsets("g", {WHERE: 5, other: 7})
    assert cluster.coordinated == [(0, "g")]
    topics = {
        topic.name: [(each.partition_index, each.committed_offset) for each in topic.partitions]
        for topic in cluster.requests[0].topics
    }
    assert topics == {"t": [(0, 5)], "u": [(3, 7)]}


def test_a_partition_that_was_never_committed_has_no_offset():
    found = [
        Answer(partition_index=at, committed_offset=offset) for at, offset in ((0, -1), (1, 0))
    ]
    group = Answer(error_code=ErrorCode.none, topics=(Answer(name="t", partitions=found),))
    cluster = FakeCluster(Answer(groups=(group,)))
    assert client_of(cluster).committed_offsets("g") == {TopicPartition(TopicName("t"), 1): 0}


def test_offsets_that_are_refused_are_not_taken_for_none():
    group = Answer(error_code=ErrorCode.group_authorization_failed, topics=())
    with pytest.raises(KafkaRefused, match="offsets of group 'g'"):
        client_of(FakeCluster(Answer(groups=(group,)))).committed_offsets("g")


def client_of(cluster: FakeCluster) -> KafkaClient:
    client = KafkaClient("nobody:1")
    client._cluster = cluster  # type: ignore[assignment]
    return client
