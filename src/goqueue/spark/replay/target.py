"""The topic that a replay writes to: is it there, has it room, and will it keep what it gets?"""

from datetime import UTC, datetime

from goqueue.client.kafka import ErrorCode, KafkaClient, KafkaRefused
from goqueue.spark.replay.plans import ReplayRefused

FOREVER = -1


def make_if_missing(client: KafkaClient, topic: str, partitions: int) -> bool:
    """Whether it was made now: for as many partitions, and for messages of any age."""
    try:
        client.metadata([topic])
    except KafkaRefused as refused:
        if refused.code is not ErrorCode.unknown_topic_or_partition:
            raise
        client.create_topic(topic, partitions=partitions, settings={"retention.ms": str(FOREVER)})
        return True
    return False


def check_partitions(client: KafkaClient, topic: str, wanted: int) -> None:
    count = client.metadata([topic])[topic].partition_count
    if count < wanted:
        raise ReplayRefused(
            f"topic {topic!r} has {count} partitions and {wanted} are needed to keep messages in"
            " theirs: add partitions, or let their keys decide"
        )


def check_age(client: KafkaClient, topic: str, oldest: datetime, now: datetime) -> None:
    """Messages that are older than a topic keeps them would be deleted as soon as they come."""
    setting = client.describe_configs("topic", topic).get("retention.ms")
    kept_ms = int(setting) if setting else FOREVER
    age_ms = (now - oldest).total_seconds() * 1000
    if kept_ms != FOREVER and age_ms > kept_ms:
        raise ReplayRefused(
            f"topic {topic!r} keeps messages for {kept_ms} ms and would delete those of"
            f" {oldest.astimezone(UTC).isoformat()} at once: raise its retention.ms (-1 keeps all),"
            " or give them the time of the replay"
        )
