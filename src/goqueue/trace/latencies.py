"""How long messages take from step to step: counted from the events of their journeys.

    received ──> persisted ──────> delivered ──────> acked
       publish        first delivery        ack
       └───────────────── end to end ───────────────────┘

An event stands for a range of offsets, so a batch of ten thousand messages is one observation with
that weight.  What a message took is known when both its steps were seen: memory is bounded, and a
message that was published before the process started has no times.

A Kafka fetch does not say its group: the same client's commits do (see `journeys`).  Until it has
committed, its reads count for the group "".  Redeliveries are no first deliveries.  A message that
the broker moved (dead letters, redrives, delayed messages) begins when it is in the topic.
"""

from collections import OrderedDict
from typing import Final

from goqueue.trace.events import Place, Space, Step, TraceEvent
from goqueue.trace.histograms import HistogramTable
from goqueue.trace.journeys import FIRST_COMMIT, host_of
from goqueue.trace.offset_runs import RUNS_MAX, OffsetRuns, Run

TOPICS_MAX: Final = 200  # that have series of their own
PAIRS_MAX: Final = 100  # of a topic and a group
PARTITIONS_MAX: Final = 2_000  # whose times are remembered
READERS_MAX: Final = 32  # of a partition
CLIENTS_MAX: Final = 10_000  # whose group is known
PARENTS_MAX: Final = 10_000
OTHERS: Final = "(others)"  # no topic and no group has such a name


class PartitionTimes:
    """When the messages of one partition were published, and delivered to whom."""

    __slots__ = ("_runs_max", "delivered", "published", "published_to", "read_to")

    def __init__(self, runs_max: int) -> None:
        self._runs_max = runs_max
        self.published = OffsetRuns(runs_max)
        self.published_to = 0
        self.delivered: OrderedDict[str, OffsetRuns] = OrderedDict()  # by group or client
        self.read_to: dict[str, int] = {}

    def deliveries_to(self, reader: str) -> OffsetRuns:
        found = self.delivered.get(reader)
        if found is None:
            found = self.delivered[reader] = OffsetRuns(self._runs_max)
            if len(self.delivered) > READERS_MAX:
                gone, _ = self.delivered.popitem(last=False)
                self.read_to.pop(gone, None)
        return found


class Latencies:
    def __init__(self, runs_max: int = RUNS_MAX) -> None:
        """`runs_max`: how many batches of a partition are remembered exactly."""
        self._runs_max = runs_max
        self.publish = HistogramTable((OTHERS,), TOPICS_MAX)  # by topic
        self.first_delivery = HistogramTable((OTHERS, OTHERS), PAIRS_MAX)  # by topic and group
        self.ack = HistogramTable((OTHERS, OTHERS), PAIRS_MAX)
        self.end_to_end = HistogramTable((OTHERS, OTHERS), PAIRS_MAX)
        self._partitions: OrderedDict[tuple[bytes, int, int], PartitionTimes] = OrderedDict()
        self._groups: OrderedDict[str, str] = OrderedDict()  # of clients; "" if it has several
        self._parents: OrderedDict[Place, str] = OrderedDict()  # trace ids that messages brought

    def note(self, event: TraceEvent) -> None:
        match event.step:
            case Step.PUBLISHED | Step.PUBLISH_PERSISTED:
                self._note_published(event)
            case Step.FETCHED:
                self._note_fetched(event)
            case Step.ACKED:
                self._note_acked(event)
            case Step.LEADER_CHANGED:  # offsets may stand for other messages from now on
                self._partitions.pop((event.topic_id, event.partition, Space.DATA), None)
                self._partitions.pop((event.topic_id, event.partition, Space.DELAYS), None)
            case Step.TRACE_LINKED:
                self._note_parent(event)
            case _:
                pass

    def published_us(self, topic_id: bytes, partition: int, offset: int) -> int | None:
        """When the message was persisted, if that is known."""
        times = self._partitions.get((topic_id, partition, Space.DATA))
        found = None if times is None else next(times.published.find(offset, offset), None)
        return None if found is None else found.done_us

    def forget_topics(self, topics: set[str]) -> None:
        """They are deleted."""
        for table in (self.publish, self.first_delivery, self.ack, self.end_to_end):
            table.forget_topics(topics)

    @property
    def topics(self) -> set[str]:
        """That have series."""
        every = (self.publish, self.first_delivery, self.ack, self.end_to_end)
        return {key[0] for each in every for key in each.table} - {OTHERS}

    # --- steps ------------------------------------------------------------------------------------

    def _note_published(self, event: TraceEvent) -> None:
        times = self._times(event)
        if event.first < times.published_to:
            return  # it is told of in two parts
        took = event.duration_us
        if event.step == Step.PUBLISHED:
            if took < 0:
                return  # not persisted yet: that follows
            begun, done = event.time_us, event.time_us + took
        else:
            begun, done = event.time_us - max(0, took), event.time_us
        times.published_to = event.last + 1
        times.published.add(Run(event.first, event.last, begun, done))
        if took >= 0:
            histogram = self.publish.of((event.topic,))
            histogram.observe(took, event.count, done, *self._example(event))

    def _note_fetched(self, event: TraceEvent) -> None:
        times, at_us = self._times(event), event.time_us
        group, reader = self._who(event)
        first = event.first
        if not event.attempt:  # a stream: what was read again is no first delivery
            first = max(first, times.read_to.get(reader, 0))
        times.deliveries_to(reader).add(Run(event.first, event.last, at_us, at_us))
        times.read_to[reader] = max(event.last + 1, times.read_to.get(reader, 0))
        if event.attempt > 1 or first > event.last:
            return
        for run in times.published.find(first, event.last):
            histogram = self.first_delivery.of((event.topic, group))
            count = run.last - run.first + 1
            histogram.observe(at_us - run.done_us, count, at_us, *self._example(event))

    def _note_acked(self, event: TraceEvent) -> None:
        times, key = self._times(event), (event.topic, event.group)
        reader = event.group if event.group in times.delivered else self._learn_group(event)
        delivered = times.delivered.get(reader)
        runs = [] if delivered is None else list(delivered.find(event.first, event.last))
        example = self._example(event)
        for run in runs:
            count = run.last - run.first + 1
            self.ack.of(key).observe(event.time_us - run.done_us, count, event.time_us, *example)
        if delivered is not None:
            delivered.cut(event.first, event.last)
        acked = [(event.first, event.last)]
        if event.detail == FIRST_COMMIT:  # says nothing of messages that were never read
            acked = [(run.first, run.last) for run in runs]
        for first, last in acked:
            for run in times.published.find(first, last):
                took, count = event.time_us - run.begun_us, run.last - run.first + 1
                self.end_to_end.of(key).observe(took, count, event.time_us, *example)

    # --- who and which ----------------------------------------------------------------------------

    def _times(self, event: TraceEvent) -> PartitionTimes:
        key = event.topic_id, event.partition, event.space
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = PartitionTimes(self._runs_max)
            if len(self._partitions) > PARTITIONS_MAX:
                self._partitions.popitem(last=False)
        return found

    def _who(self, event: TraceEvent) -> tuple[str, str]:
        """The group, and by what its deliveries are kept."""
        if event.group:
            return event.group, event.group
        client = _client(event)
        return self._groups.get(client, ""), client

    def _learn_group(self, event: TraceEvent) -> str:
        client = _client(event)
        known = self._groups.get(client)
        if known is None:
            self._groups[client] = event.group
            if len(self._groups) > CLIENTS_MAX:
                self._groups.popitem(last=False)
        elif known != event.group:
            self._groups[client] = ""
        return client

    def _note_parent(self, event: TraceEvent) -> None:
        place = Place(event.topic_id, event.partition, event.first, event.space)
        self._parents[place] = event.detail.partition("-")[0]
        if len(self._parents) > PARENTS_MAX:
            self._parents.popitem(last=False)

    def _example(self, event: TraceEvent) -> tuple[Place, str]:
        place = Place(event.topic_id, event.partition, event.first, event.space)
        return place, self._parents.get(place, "")


def _client(event: TraceEvent) -> str:
    return f"{event.client} {host_of(event.address)}"
