"""One connection to one broker, which may answer late, never, or with nonsense."""

import pytest

from goqueue.client.errors import BadAnswer, NoAnswer
from goqueue.client.kafka import KafkaClient
from tests.unit.client.kafka.fake_kafka import SILENCE, FakeKafka


def test_a_broker_that_never_answers_costs_the_deadline_and_no_more():
    with (
        FakeKafka(lambda fake, api: SILENCE) as fake,
        KafkaClient(str(fake.node), timeout_s=0.2) as client,
        pytest.raises(NoAnswer, match=r"within 0\.2 s"),
    ):
        client.metadata()


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
