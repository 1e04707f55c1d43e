"""Errors of the writer say what to do."""

import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.errors import Conflict, ServerUnreachable
from goqueue.client.kafka import KafkaRefused
from goqueue.model.errors import BatchTooLarge
from goqueue.spark.sink.hints import add_hints


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BatchTooLarge("a message takes 2 bytes"), "kafka.max.request.size"),
        (KafkaRefused("write", ErrorCode.message_too_large), "max.message.bytes"),
        (KafkaRefused("write", ErrorCode.invalid_producer_epoch), "txnTimeout"),
        (KafkaRefused("topic", ErrorCode.unknown_topic_or_partition), "topic create"),
        (Conflict("no", code="application_fenced", status=409), "only one may write"),
        (Conflict("no", code="version_goes_back", status=409), "another txnAppId"),
        (Conflict("no", code="version_goes_back", status=409), "stop one of them"),
        (ServerUnreachable("no GoQueue server at http://10.0.0.1:8080"), "http.advertised"),
    ],
)
def test_a_refusal_comes_with_a_remedy(error: Exception, said: str):
    with pytest.raises(type(error)) as raised, add_hints():
        raise error
    assert said in raised.value.__notes__[0]


@pytest.mark.parametrize(
    "error",
    [ValueError("a bad row"), KafkaRefused("write", ErrorCode.kafka_storage_error)],
)
def test_what_is_not_known_is_left_as_it_is(error: Exception):
    with pytest.raises(type(error)) as raised, add_hints():
        raise error
    assert not hasattr(raised.value, "__notes__")
