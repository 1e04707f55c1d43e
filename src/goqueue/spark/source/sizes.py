"""How big a partition's records are, on average: enough to plan by."""

from collections.abc import Collection, Mapping

from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient
from goqueue.model.ids import TopicPartition


def record_bytes(
    client: KafkaClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, float]:
    """The bytes of a log for each offset in it; nothing for a log that is empty."""
    if not partitions:
        return {}
    sizes = client.log_sizes(partitions)
    earliest = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
    latest = client.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=False)
    counts = {where: latest[where].offset - earliest[where].offset for where in partitions}
    return averages(sizes, counts)


def averages(
    sizes: Mapping[TopicPartition, int], counts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, float]:
    return {
        where: sizes[where] / count
        for where, count in counts.items()
        if count > 0 and sizes.get(where, 0) > 0
    }
