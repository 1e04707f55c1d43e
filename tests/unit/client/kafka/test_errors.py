"""What a broker refuses, and which refusals are worth another try."""

import pytest
from kio.schema.errors import ErrorCode

from goqueue.client.errors import BadAnswer, ClientError, NoAnswer, ServerUnreachable
from goqueue.client.kafka.errors import KafkaRefused, check_code, is_retriable


def test_a_refusal_says_what_was_done_and_the_brokers_words():
    error = KafkaRefused("topic 't'", ErrorCode.topic_already_exists, "it is there")
    assert str(error) == "topic 't': topic_already_exists (36): it is there"
    assert str(KafkaRefused("topic 't'", ErrorCode.topic_already_exists)).endswith("(36)")
    assert error.code is ErrorCode.topic_already_exists


@pytest.mark.parametrize(
    ("error", "repeated", "unrepeated"),
    [
        (KafkaRefused("", ErrorCode.not_leader_or_follower), True, True),
        (KafkaRefused("", ErrorCode.coordinator_load_in_progress), True, True),
        (KafkaRefused("", ErrorCode.unknown_topic_or_partition), False, False),
        (KafkaRefused("", ErrorCode.out_of_order_sequence_number), False, False),
        (ServerUnreachable(""), True, True),
        (NoAnswer(""), True, False),
        (BadAnswer(""), False, False),
    ],
)
def test_asking_again_must_help_and_must_not_do_it_twice(
    error: ClientError, repeated: bool, unrepeated: bool
):
    assert is_retriable(error, repeats_unanswered=True) is repeated
    assert is_retriable(error, repeats_unanswered=False) is unrepeated


def test_a_code_of_success_is_no_refusal():
    check_code(ErrorCode.none, "topic 't'")
    with pytest.raises(KafkaRefused, match=r"topic 't': invalid_request \(42\): so"):
        check_code(ErrorCode.invalid_request, "topic 't'", "so")
