"""What a publish checks and chooses before it writes."""

from uuid import UUID

import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.messages.preparation import (
    MessageCheck,
    PartitionRotation,
    fitting_runs,
    partition_of,
)
from goqueue.cluster import Topic
from goqueue.model.batch import HEADER_BYTES
from goqueue.model.errors import InvalidRecord, InvalidTimestamp, PartitionNotFound
from goqueue.model.ids import Timestamp, TopicId, TopicName
from goqueue.model.settings import topic_settings

NOW = Timestamp(1_750_000_000_000)


def topic(**settings: str) -> Topic:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    topic_id = TopicId(UUID(int=1))
    return Topic(topic_id, TopicName("t"), 3, named, topic_settings(named), Timestamp(0))


def test_a_message_goes_where_it_says_or_where_its_key_says():
    assert partition_of(OutgoingMessage(b"m", partition=2, key=b"k"), topic()) == 2
    of_key = partition_of(OutgoingMessage(b"m", key=b"k"), topic())
    assert of_key == partition_of(OutgoingMessage(b"other", key=b"k"), topic())
    assert partition_of(OutgoingMessage(b"m"), topic()) is None


def test_partitions_take_turns():
    rotation = PartitionRotation()
    assert [rotation.next_partition(topic()) for _ in range(5)] == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("message", "settings", "problem"),
    [
        (OutgoingMessage(b"m", partition=3), {}, PartitionNotFound),
        (OutgoingMessage(b"m"), {"cleanup_policy": "compact"}, InvalidRecord),
        (OutgoingMessage(b"m", timestamp=NOW + 7_200_000), {}, InvalidTimestamp),
        (
            OutgoingMessage(b"m", timestamp=NOW + 7_200_000),
            {"message_timestamp_type": "LogAppendTime"},
            None,
        ),
        (OutgoingMessage(b"m", partition=2, timestamp=NOW), {}, None),
    ],
)
def test_what_a_topic_cannot_take_is_told(
    message: OutgoingMessage, settings: dict[str, str], problem: type[Exception] | None
):
    found = MessageCheck(topic(**settings), NOW).problem(message)
    assert found is None if problem is None else isinstance(found, problem)


def test_runs_fit_a_batch_and_one_that_never_fits_stands_alone():
    messages = [OutgoingMessage(b"x" * size) for size in (100, 100, 5_000, 100)]
    bytes_max = HEADER_BYTES + 2 * (100 + 36)
    assert list(fitting_runs(messages, [0, 1, 2, 3], bytes_max)) == [[0, 1], [2], [3]]
