"""Offsets that are wanted and no longer there: said with all that is needed to go on."""

from goqueue.client.errors import ClientError
from goqueue.model.ids import TopicPartition

ADVICE = (
    "set failOnDataLoss=false to go on with what is there, or start over with another checkpoint;"
    " to keep records for longer, raise retention.ms and retention.bytes of the topic"
)


class DataLost(ClientError):
    """Records that a query still wants are gone; `failOnDataLoss` decides whether it ends."""


def describe_deleted(where: TopicPartition, *, wanted: int, earliest: int) -> DataLost:
    return DataLost(
        f"partition {where.partition} of topic {where.topic!r}: offset {wanted} is wanted and"
        f" {earliest} is the earliest there is, so {earliest - wanted} offsets were deleted before"
        f" they were read (retention, or records deleted by hand): {ADVICE}"
    )


def log_went_back(where: TopicPartition, *, wanted: int, latest: int) -> DataLost:
    return DataLost(
        f"partition {where.partition} of topic {where.topic!r}: offset {wanted} is wanted and"
        f" {latest} is the latest there is: the topic was deleted and made again, or restored from"
        f" an older copy: {ADVICE}"
    )


def topic_made_again(topic: str) -> DataLost:
    return DataLost(
        f"topic {topic!r} was deleted and made again since it was read last: what it had and was"
        f" not read is gone, and its offsets begin again: {ADVICE}"
    )


def partition_gone(where: TopicPartition, *, wanted: int) -> DataLost:
    return DataLost(
        f"partition {where.partition} of topic {where.topic!r}: offset {wanted} is wanted and the"
        f" topic is gone: {ADVICE}"
    )
