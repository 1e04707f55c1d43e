"""How a request is sent again, among brokers that fail."""

import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.kafka import LATEST, KafkaClient, KafkaRefused
from goqueue.wire.apis import ApiKey
from tests.unit.client.kafka.fake_kafka import CLOSE, WHERE, FakeKafka, described, offsets


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


def test_a_refusal_for_now_becomes_an_error_at_the_deadline():
    with (
        FakeKafka(
            lambda fake, api: (
                described(fake.node)
                if api is ApiKey.METADATA
                else offsets((0, -1), code=ErrorCode.leader_not_available)
            )
        ) as fake,
        KafkaClient(str(fake.node), timeout_s=2) as client,
        pytest.raises(KafkaRefused) as refused,
    ):
        client.list_offsets({WHERE: LATEST})
    assert refused.value.code is ErrorCode.leader_not_available
    assert fake.asked.count(ApiKey.LIST_OFFSETS) > 1
