"""What a stream's driver decides: from where to where the next micro-batch goes, and who reads it.

It lives as long as the query, in a process of its own, and knows nothing of Spark.  All that must
survive is in the offsets that Spark keeps; what is remembered here only saves questions.
"""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from uuid import UUID

from goqueue.client.kafka import EARLIEST, LATEST, KafkaClient
from goqueue.model.ids import TopicPartition
from goqueue.spark.source.admission import admit, record_bytes
from goqueue.spark.source.batches import sizing_of
from goqueue.spark.source.connection import connect
from goqueue.spark.source.group_offsets import GroupOffsets
from goqueue.spark.source.loss import (
    DataLost,
    describe_deleted,
    log_went_back,
    partition_gone,
    topic_made_again,
)
from goqueue.spark.source.offsets import NO_IDS, changed_topics, without_topics
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.plan import OffsetRange, Task, plan
from goqueue.spark.source.positions import Places, resolve
from goqueue.spark.source.subscriptions import discover_topics

SIZES_S: Final = 30.0  # for which averages of record sizes are good
PUBLISH_S: Final = 2.0  # what showing the offsets may cost a micro-batch

log = logging.getLogger(__name__)


class StreamOffsets:
    def __init__(
        self, options: SourceOptions, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options
        self._clock = clock
        self._client: KafkaClient = connect(options.bootstrap, options.timeout_ms, options.login)
        self._target: Places | None = None  # where a run that takes what is there now ends
        self._latest: Places = {}
        self._sizes: dict[TopicPartition, float] = {}
        self._sizes_until = 0.0
        self._waiting_since = clock()  # for `minOffsetsPerTrigger`
        self._published: Places = {}
        self._group_offsets = GroupOffsets(timeout_s=PUBLISH_S)
        self.topic_ids: dict[str, UUID] = {}  # of the topics that were found last

    def close(self) -> None:
        self._client.close()

    # --- offsets ----------------------------------------------------------------------------------

    def initial(self) -> Places:
        """Where a new query begins."""
        found = discover_topics(self._options.subscription, self._client)
        self.topic_ids = found.topic_ids
        return resolve(
            self._options.starting,
            found.partitions,
            partial(self._client.list_offsets, read_committed=self._options.read_committed),
            beyond_end=self._options.beyond_end,
        )

    def freeze(self) -> None:
        """Take nothing that comes after now."""
        self._target = self._latest_now()

    def latest(
        self, start: Places, topic_ids: Mapping[str, UUID] = NO_IDS, *, limited: bool = True
    ) -> Places:
        """Where the micro-batch that begins at `start` ends; `start` itself: there is none.

        `topic_ids` are those of `start`, where they are known.
        """
        self._publish(start)
        self._latest = self._latest_now()
        made_again = changed_topics(topic_ids, self.topic_ids)
        for topic in sorted(made_again):
            self._report_loss(topic_made_again(topic))
        start = without_topics(start, made_again)
        latest = self._without_loss(start, self._reachable())
        new = [where for where in latest if where not in start]
        starts = start | self._earliest(new)
        if limited:
            if self._is_too_little(starts, latest):
                return start
            latest = self._admit(starts, latest)
        self._waiting_since = self._clock()
        return latest

    def report_latest(self) -> Places:
        """The latest there is, for whoever measures lag."""
        return self._latest

    def _latest_now(self) -> Places:
        found = discover_topics(self._options.subscription, self._client, skips_missing=True)
        self.topic_ids = found.topic_ids
        return self._offsets(found.partitions, LATEST)

    def _reachable(self) -> Places:
        if self._target is None:
            return dict(self._latest)
        return {
            where: min(offset, self._target[where])
            for where, offset in self._latest.items()
            if where in self._target
        }

    def _without_loss(self, start: Places, latest: Places) -> Places:
        """`latest`, after a look at what `start` has and it has not."""
        for where, offset in start.items():
            if where not in self._latest:
                self._report_loss(partition_gone(where, wanted=offset))
            elif where not in latest:  # it came after the freeze: it is done
                latest[where] = offset
            elif self._latest[where] < offset:
                self._report_loss(log_went_back(where, wanted=offset, latest=self._latest[where]))
            else:
                latest[where] = max(offset, latest[where])
        return latest

    def _report_loss(self, error: DataLost) -> None:
        if self._options.fail_on_data_loss:
            raise error
        log.warning("%s", error)

    # --- limits -----------------------------------------------------------------------------------

    def _is_too_little(self, starts: Places, latest: Places) -> bool:
        least = self._options.offsets_per_trigger_min
        if least is None or self._target is not None:
            return False
        available = sum(max(0, latest[where] - starts[where]) for where in latest)
        waited_ms = (self._clock() - self._waiting_since) * 1000
        return available < least and waited_ms < self._options.trigger_delay_ms_max

    def _admit(self, starts: Places, latest: Places) -> Places:
        options = self._options
        if options.offsets_per_trigger_max is None and options.bytes_per_trigger_max is None:
            return latest
        return admit(
            starts,
            latest,
            offsets_max=options.offsets_per_trigger_max,
            bytes_max=options.bytes_per_trigger_max,
            record_bytes=self._record_bytes(latest) if options.bytes_per_trigger_max else None,
        )

    def _record_bytes(self, partitions: Places) -> dict[TopicPartition, float]:
        now = self._clock()
        if now >= self._sizes_until or not partitions.keys() <= self._sizes.keys():
            self._sizes = record_bytes(self._client, list(partitions))
            self._sizes_until = now + SIZES_S
        return self._sizes

    # --- tasks ------------------------------------------------------------------------------------

    def tasks(self, start: Places, end: Places) -> list[Task]:
        """Who reads what.  A partition that is new in `end` is read from its earliest offset."""
        moved = [where for where in end if start.get(where) != end[where]]
        earliest = self._earliest(moved)
        ranges = [self._range(where, start, end, earliest[where]) for where in sorted(moved)]
        return plan(ranges, sizing_of(self._options), self._record_bytes(earliest))

    def _range(
        self, where: TopicPartition, start: Places, end: Places, earliest: int
    ) -> OffsetRange:
        first = start.get(where, earliest)
        if first > end[where]:  # the topic was made again, and that is allowed: read it as it is
            first = earliest
        if first < earliest:
            self._report_loss(describe_deleted(where, wanted=first, earliest=earliest))
        return OffsetRange(*where, min(max(first, earliest), end[where]), end[where])

    def _earliest(self, partitions: list[TopicPartition]) -> Places:
        return self._offsets(partitions, EARLIEST)

    def _offsets(self, partitions: list[TopicPartition], end: int) -> Places:
        if not partitions:
            return {}
        found = self._client.list_offsets(
            dict.fromkeys(partitions, end), read_committed=self._options.read_committed
        )
        return {where: answer.offset for where, answer in found.items()}

    # --- showing ----------------------------------------------------------------------------------

    def _publish(self, done: Places) -> None:
        """Show what is done as a group's offsets.  A micro-batch does not fail for it."""
        group = self._options.group
        if not group or done == self._published:
            return
        self._group_offsets.publish(self._options.bootstrap, group, done, self._options.login)
        self._published = done
