"""The offsets of a group, seen from outside."""

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from goqueue.client.kafka import KafkaClient
from goqueue.wire import shapes
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import build
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
