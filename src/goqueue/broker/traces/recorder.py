"""Records what happens to messages: to a ring in memory, and for the history.

An event takes about a microsecond, whatever number of messages it is about, and nothing waits for
it: `TraceHistory` takes what is pending away, several times a second.  If it does not keep up, the
newest events are counted as dropped, and only the ring has them.

Topics are sampled in blocks of offsets: a message is either sampled at all of its steps, or at
none.  An event is recorded if its range holds a block that is sampled.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from goqueue.broker.traces.parents import UnreadBatches, may_have_parents
from goqueue.broker.traces.requester import requester
from goqueue.cluster.replication import Leader, Role
from goqueue.log import Appended
from goqueue.model.config import TracesConfig
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Offset, TopicId
from goqueue.model.markers import Marker
from goqueue.model.names import is_internal
from goqueue.model.settings import TopicSettings
from goqueue.runtime import Clock
from goqueue.trace.events import OFFSET_MAX, UNKNOWN, Space, Step, TraceEvent

PENDING_MAX: Final = 100_000  # events that wait for the history
LINKS_MAX: Final = 10_000
UNPERSISTED_MAX: Final = 1_000  # batches of a partition that wait for their commit
BLOCK_BITS: Final = 8  # messages are sampled 256 at a time
ERROR_LENGTH_MAX: Final = 300
_MIX: Final = 0x9E37_79B9_7F4A_7C15
_ALL: Final = 2**32


class TraceRecorder:
    def __init__(self, clock: Clock, node_id: int, config: TracesConfig) -> None:
        self._clock = clock
        self.node_id = node_id
        self.config = config
        self.is_enabled = config.enabled
        self.boot = int(clock.now())
        self.ring: deque[TraceEvent] = deque(maxlen=max(1, config.buffer_events))
        self.pending: list[TraceEvent] = []
        self.recorded_total = 0
        self.dropped_total = 0
        self.taken_number = 0  # the last event that was taken for the history
        self.unread = UnreadBatches()
        self.links: deque[TraceEvent] = deque(maxlen=LINKS_MAX)
        self._base_ns = 0  # wall clock minus instant
        self.read_clock()

    def read_clock(self) -> None:
        """Now and then: the wall clock may be set."""
        self._base_ns = self._clock.now() * 1_000_000 - self._clock.instant()

    def now_us(self) -> int:
        return (self._clock.instant() + self._base_ns) // 1000

    def wall_us(self, instant_ns: int) -> int:
        return (instant_ns + self._base_ns) // 1000

    def add(self, event: TraceEvent) -> None:
        self.recorded_total += 1
        event.node, event.boot, event.number = self.node_id, self.boot, self.recorded_total
        self.ring.append(event)
        if len(self.pending) < PENDING_MAX:
            self.pending.append(event)
        else:
            self.dropped_total += 1

    def link(self, events: Iterable[TraceEvent]) -> None:
        """Messages with trace ids of their own: for look-ups, beside the ring."""
        for event in events:
            self.recorded_total += 1
            event.node, event.boot, event.number = self.node_id, self.boot, self.recorded_total
            self.links.append(event)

    def take_pending(self) -> list[TraceEvent]:
        taken, self.pending = self.pending, []
        self.taken_number = self.recorded_total
        return taken

    def note_rebalance(self, group: str, generation: int, reason: str) -> None:
        if self.is_enabled:
            event = TraceEvent(self.now_us(), Step.GROUP_REBALANCED, group=group)
            event.attempt, event.detail = generation, reason
            self.add(event)

    def tracer(
        self,
        topic: str,
        topic_id: TopicId | None,
        index: int,
        settings: TopicSettings,
        space: Space = Space.DATA,
    ) -> "PartitionTracer | None":
        """For a partition's messages; None for those of the broker's own topics."""
        if topic_id is None or is_internal(topic) or not self.is_enabled:
            return None
        tracer = PartitionTracer(self, topic, topic_id, index, space)
        tracer.apply_settings(settings)
        return tracer


class PartitionTracer:
    """What happens to the messages of one partition, at the node that leads it."""

    __slots__ = (
        "_limit",
        "_recorder",
        "_unpersisted",
        "index",
        "is_on",
        "space",
        "topic",
        "topic_id",
    )

    def __init__(
        self, recorder: TraceRecorder, topic: str, topic_id: TopicId, index: int, space: Space
    ) -> None:
        self._recorder = recorder
        self.topic = topic
        self.topic_id = topic_id.bytes
        self.index = index
        self.space = space
        self.is_on = True
        self._limit = _ALL
        self._unpersisted: deque[TraceEvent] = deque()

    def apply_settings(self, settings: TopicSettings) -> None:
        rate = min(settings.goqueue_trace_sample_rate, self._recorder.config.sample_rate)
        self._limit = int(rate * _ALL)
        self.is_on = settings.goqueue_trace_enable and self._limit > 0

    def is_sampled(self, first: int, last: int) -> bool:
        if self._limit >= _ALL:
            return True
        for block in range(first >> BLOCK_BITS, (last >> BLOCK_BITS) + 1):
            mixed = ((block * 31 + self.index) * _MIX) & (2**64 - 1)
            if mixed >> 32 < self._limit:
                return True
        return False

    def event(self, step: Step, first: int, last: int, time_us: int = 0) -> TraceEvent:
        """One that is not recorded yet, with who asks."""
        event = TraceEvent(
            time_us or self._recorder.now_us(),
            step,
            self.topic,
            self.topic_id,
            self.index,
            first,
            last,
            self.space,
        )
        asking = requester.get()
        if asking is not None:
            event.client, event.address = asking.client, asking.address
        return event

    def wall_us(self, instant_ns: int) -> int:
        return self._recorder.wall_us(instant_ns)

    def record(self, event: TraceEvent) -> None:
        if self.is_on and self.is_sampled(event.first, event.last):
            self._recorder.add(event)

    # --- publishing -------------------------------------------------------------------------------

    def note_appended(self, appended: Appended, data: bytearray | memoryview) -> None:
        """Batches were checked, and are in the log.

        If nobody asked, the broker moves messages that were received elsewhere.
        """
        first, last = appended.first_offset, appended.last_offset
        if not self.is_on or not self.is_sampled(first, last):
            return
        recorder, asking = self._recorder, requester.get()
        now_us = recorder.now_us()
        if asking is None:
            event = TraceEvent(now_us, Step.PUBLISH_PERSISTED)
        else:
            received_us = recorder.wall_us(asking.received_ns) if asking.received_ns else now_us
            event = TraceEvent(min(received_us, now_us), Step.PUBLISHED)
            event.client, event.address = asking.client, asking.address
            event.validated_us = now_us - event.time_us
        event.topic, event.topic_id, event.partition = self.topic, self.topic_id, self.index
        event.first, event.last, event.space = first, last, self.space
        if len(self._unpersisted) < UNPERSISTED_MAX:
            self._unpersisted.append(event)
        if asking is not None:
            recorder.add(event)
            if may_have_parents(data, may_be_plain=asking.may_bring_traces):
                recorder.unread.keep(event, data)

    def note_synced(self, offset: Offset) -> None:
        """Everything below is on this leader's disk; its followers may lack it yet."""
        now_us = 0
        for event in self._unpersisted:
            if event.last >= offset:
                return
            if event.synced_us < 0 and event.step == Step.PUBLISHED:
                now_us = now_us or self._recorder.now_us()
                event.synced_us = max(0, now_us - event.time_us)

    def note_committed(self, high_watermark: Offset, role: Leader) -> None:
        """Everything below is durable on all replicas in sync, and visible."""
        waiting = self._unpersisted
        if not waiting or waiting[0].last >= high_watermark:
            return
        recorder = self._recorder
        now_us, detail = recorder.now_us(), ""
        is_replicated = len(role.isr) > 1
        if is_replicated:
            detail = "on nodes " + ", ".join(map(str, sorted(role.isr)))
        while waiting and waiting[0].last < high_watermark:
            event = waiting.popleft()
            event.detail = detail
            if event.step == Step.PUBLISH_PERSISTED:
                event.time_us = now_us
                recorder.add(event)
                continue
            event.duration_us = max(0, now_us - event.time_us)
            if not is_replicated:
                event.synced_us = UNKNOWN
            if event.number <= recorder.taken_number:  # the history has it as it was
                later = self.event(Step.PUBLISH_PERSISTED, event.first, event.last, now_us)
                later.client, later.address = event.client, event.address
                later.duration_us, later.detail = event.duration_us, event.detail
                later.synced_us = event.synced_us
                recorder.add(later)

    def note_refused(self, error: GoQueueError) -> None:
        if not self.is_on:
            return
        event = self.event(Step.PUBLISH_REJECTED, -1, -1)
        asking = requester.get()
        if asking is not None and asking.received_ns:
            received_us = self._recorder.wall_us(asking.received_ns)
            event.duration_us = max(0, event.time_us - received_us)
        event.error, event.detail = str(error)[:ERROR_LENGTH_MAX], error.code
        self._recorder.add(event)

    def note_marker(self, marker: Marker, start: Offset | None, end: Offset) -> None:
        """A transaction of a producer, with messages from `start` on, has ended."""
        if start is None or not self.is_on or not self.is_sampled(start, end - 1):
            return
        step = Step.TXN_COMMITTED if marker.commits else Step.TXN_ABORTED
        event = self.event(step, start, end - 1)
        event.detail = f"producer {marker.producer_id}"
        self._recorder.add(event)

    # --- consuming --------------------------------------------------------------------------------

    def note_fetched(self, first: int, last: int, group: str = "", member: str = "") -> None:
        if self.is_on and self.is_sampled(first, last):
            event = self.event(Step.FETCHED, first, last)
            event.group, event.member = group, member
            self._recorder.add(event)

    def note_role(self, role: Role) -> None:
        """A new epoch: this node leads from now on, or does so no more."""
        self._unpersisted.clear()
        if self.is_on and isinstance(role, Leader) and self.space == Space.DATA:
            event = TraceEvent(
                self._recorder.now_us(),
                Step.LEADER_CHANGED,
                self.topic,
                self.topic_id,
                self.index,
                0,
                OFFSET_MAX,
            )
            event.attempt = role.epoch
            event.detail = f"node {role.node} leads, epoch {role.epoch}"
            self._recorder.add(event)
