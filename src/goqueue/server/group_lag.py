"""How far groups are behind: in offsets, and by the age of the oldest message not finished.

Streams are behind from their committed offset on, queues from their floor on.  Looked up before a
scrape, in slices, for partitions that are open on this node.  When a message was persisted is known
from its journey.  After a restart, and on followers, its own timestamp tells: for few partitions at
a time, and once while a group stays where it is.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from goqueue.broker import Broker, Partition
from goqueue.groups import FetchRequest, GroupListing
from goqueue.model import batch as batches
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset
from goqueue.queue import GroupStats
from goqueue.server.exposition import PAUSE, Slices

LAG_SERIES_MAX: Final = 2_000
PAUSE_EVERY: Final = 200
READS_MAX: Final = 50  # of batches, for one scrape
READ_BYTES: Final = 1  # of records: the first batch comes whole

Place = tuple[str, str, int]  # group, topic and partition


class Lag(NamedTuple):
    place: Place
    offsets: int
    oldest_ms: int | None  # when the oldest message that is not finished came; None: not known


class GroupLags:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lags: list[Lag] = []
        self._read: dict[Place, tuple[int, int]] = {}  # offset, and its message's time

    async def look(self, groups: Iterable[GroupListing], queues: Iterable[GroupStats]) -> None:
        """Learn the figures for the next scrape."""
        slices, lags = Slices(), dict[Place, Lag]()
        before, self._read, reads = self._read, {}, 0
        sources = itertools.chain(map(self._behind, groups), map(self._queue_behind, queues))
        for source in sources:
            await slices.pause()
            for place, partition, offset, behind in source:
                if len(lags) >= LAG_SERIES_MAX:
                    break
                known = self._find_known(place, partition, offset, before) if behind else None
                if behind and known is None and reads < READS_MAX:
                    reads += 1
                    known = await _read_time(partition, offset)
                if behind and known is not None:
                    self._read[place] = offset, known
                lags[place] = Lag(place, behind, known)
        self._lags = list(lags.values())

    def _behind(self, group: GroupListing) -> Iterable[tuple[Place, Partition, Offset, int]]:
        try:
            machine = self._broker.groups.host_of(group.group_id).ahead
        except GoQueueError:
            return  # another node coordinates it by now
        (fetched,) = machine.fetch([FetchRequest(group_id=group.group_id)]).reply.reply
        for (topic, index), committed in fetched.offsets.items():
            partition = self._broker.partitions.find_open(topic, index)
            if partition is not None and committed is not None:
                offset = max(committed.offset, partition.log.start_offset)
                end = partition.read_limit(committed_only=True)
                yield (group.group_id, topic, index), partition, offset, max(0, end - offset)

    def _queue_behind(self, group: GroupStats) -> Iterable[tuple[Place, Partition, Offset, int]]:
        for each in group.partitions:
            partition = self._broker.partitions.find_open(each.topic, each.partition)
            if partition is not None:
                offset = Offset(max(each.floor, partition.log.start_offset))
                place = group.group_id, each.topic, each.partition
                yield place, partition, offset, max(0, each.end - offset)

    def _find_known(
        self,
        place: Place,
        partition: Partition,
        offset: Offset,
        before: dict[Place, tuple[int, int]],
    ) -> int | None:
        if partition.topic_id is not None:
            latencies = self._broker.latency_counter.latencies
            found = latencies.published_us(partition.topic_id.bytes, partition.index, offset)
            if found is not None:
                return found // 1000
        read_at, time_ms = before.get(place, (-1, 0))
        return time_ms if read_at == offset else None

    def families(self) -> Iterator[Metric]:
        labels = ["group", "topic", "partition"]
        offsets = GaugeMetricFamily(
            "goqueue_consumer_lag",
            "Offsets that a group has not committed yet, of partitions in use since the start.",
            labels=labels,
        )
        oldest: dict[tuple[str, str], int] = {}
        now = self._broker.environment.clock.now()
        for number, ((group, topic, partition), behind, came_ms) in enumerate(self._lags):
            if number % PAUSE_EVERY == 0:
                yield PAUSE
            offsets.add_metric([group, topic, str(partition)], behind)
            age = 0 if came_ms is None else max(0, now - came_ms)
            oldest[group, topic] = max(age, oldest.get((group, topic), 0))
        yield offsets
        ages = GaugeMetricFamily(
            "goqueue_consumer_lag_seconds",
            "Age of the oldest message that a group has not acked or committed; 0 when there is"
            " none.",
            labels=labels[:2],
        )
        for pair, age in oldest.items():
            ages.add_metric(pair, age / 1000)
        yield ages


async def _read_time(partition: Partition, offset: Offset) -> int | None:
    """Of the message at the offset, or of the batch that it is in."""
    try:
        limit = partition.read_limit(committed_only=True)
        chunk = await partition.read(offset, READ_BYTES, limit)
    except (GoQueueError, OSError):
        return None  # it is gone, damaged, or its partition closes
    return next((int(each.base_timestamp) for each in batches.headers(chunk.data)), None)
