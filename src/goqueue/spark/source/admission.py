"""How much of what is there a micro-batch takes, by the size of records on average."""

from collections.abc import Collection, Mapping

from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient
from goqueue.model.ids import TopicPartition
from goqueue.spark.source.plan import RECORD_BYTES
from goqueue.spark.source.positions import Places


def admit(
    starts: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    *,
    offsets_max: int | None = None,
    bytes_max: int | None = None,
    record_bytes: Mapping[TopicPartition, float] | None = None,
) -> Places:
    """Where the batch ends: every partition gets the same part of its lag, at least one offset all.

    `record_bytes`: averages; without one a size of our own is taken.
    """
    lags = {where: max(0, latest[where] - starts[where]) for where in latest}
    total = sum(lags.values())
    offsets = total if offsets_max is None else min(total, offsets_max)
    if bytes_max is not None:
        sizes = record_bytes or {}
        total_bytes = sum(lag * sizes.get(where, RECORD_BYTES) for where, lag in lags.items())
        if total_bytes > bytes_max:
            offsets = min(offsets, max(1, int(total * bytes_max / total_bytes)))
    if offsets >= total:
        return dict(latest)
    return {where: starts[where] + share for where, share in _shares(lags, offsets, total).items()}


def _shares(lags: Mapping[TopicPartition, int], offsets: int, total: int) -> Places:
    """`offsets` in proportion to the lags, to the last one: what rounding leaves goes in order of
    what it took."""
    shares = {where: lag * offsets // total for where, lag in lags.items()}
    left = offsets - sum(shares.values())
    by_remainder = sorted(lags, key=lambda where: -(lags[where] * offsets % total))
    for where in by_remainder[:left]:
        shares[where] += 1
    return shares


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
