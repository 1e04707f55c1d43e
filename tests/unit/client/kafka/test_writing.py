"""Record batches to partitions."""

import pytest

from goqueue.client.errors import NoAnswer
from goqueue.client.kafka import KafkaClient
from goqueue.model.batch import encode
from goqueue.model.record import Record
from goqueue.wire.apis import ApiKey
from tests.unit.client.kafka.fake_kafka import CLOSE, WHERE, FakeKafka, described


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
