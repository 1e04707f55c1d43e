"""What happens to messages, as events that hold for a range of offsets.

One event stands for a whole batch, fetch or run of acks: ten thousand messages that are published
together cost as much as one.  The journey of a message is every event whose range holds it.

    place    topic, partition and offset; in the space of the data, or of the delay log beside it
    link     another place that the message goes on at: offset `first` continues at `link_first`,
             the next one at the next one (dead letters, redrives, delayed messages)

`PUBLISHED` is three steps in one event: received, validated (`validated_us` later) and persisted
(`duration_us` later).  With followers it is four: persisted by the leader (`synced_us` later) and
replicated.  Should it be written to the history before that, then `PUBLISH_PERSISTED` follows.
"""

import enum
from typing import Final, NamedTuple

import msgspec

OFFSET_MAX: Final = 2**63 - 1
UNKNOWN: Final = -1


class Space(enum.IntEnum):
    """Which log of a partition an offset belongs to."""

    DATA = 0
    DELAYS = 1


class Step(enum.IntEnum):
    """Numbers are written to disk: they stay as they are."""

    PUBLISHED = 0
    PUBLISH_PERSISTED = 1
    PUBLISH_REJECTED = 2
    FETCHED = 3
    ACKED = 4
    NACKED = 5
    REJECTED = 6
    RELEASED = 7
    VISIBILITY_TIMEOUT = 8
    VISIBILITY_EXTENDED = 9
    RETRY_SCHEDULED = 10
    DELAY_SCHEDULED = 11
    DELAY_READY = 12
    DELAY_CANCELLED = 13
    EXPIRED = 14
    DLQ_ROUTED = 15
    DLQ_REDRIVEN = 16
    TXN_COMMITTED = 17
    TXN_ABORTED = 18
    LEADER_CHANGED = 19
    GROUP_REBALANCED = 20
    TRACE_LINKED = 21  # a message brought a trace id of its own: for look-ups by it


NAMES: Final[dict[Step, str]] = {
    Step.PUBLISHED: "publish.received",
    Step.PUBLISH_PERSISTED: "publish.persisted",
    Step.PUBLISH_REJECTED: "publish.rejected",
    Step.FETCHED: "consume.fetched",
    Step.ACKED: "consume.acked",
    Step.NACKED: "consume.nacked",
    Step.REJECTED: "consume.rejected",
    Step.RELEASED: "consume.released",
    Step.VISIBILITY_TIMEOUT: "visibility.timeout",
    Step.VISIBILITY_EXTENDED: "visibility.extended",
    Step.RETRY_SCHEDULED: "retry.scheduled",
    Step.DELAY_SCHEDULED: "delay.scheduled",
    Step.DELAY_READY: "delay.ready",
    Step.DELAY_CANCELLED: "delay.cancelled",
    Step.EXPIRED: "delay.expired",
    Step.DLQ_ROUTED: "dlq.routed",
    Step.DLQ_REDRIVEN: "dlq.redriven",
    Step.TXN_COMMITTED: "txn.committed",
    Step.TXN_ABORTED: "txn.aborted",
    Step.LEADER_CHANGED: "leader.changed",
    Step.GROUP_REBALANCED: "group.rebalanced",
    Step.TRACE_LINKED: "trace.linked",
}
VALIDATED: Final = "publish.validated"
REPLICATED: Final = "publish.replicated"

# What happened around a message, not to it.
CONTEXT: Final = frozenset({Step.LEADER_CHANGED, Step.GROUP_REBALANCED})


class Place(NamedTuple):
    """Where a message is."""

    topic_id: bytes
    partition: int
    offset: int
    space: int = Space.DATA


class TraceEvent(msgspec.Struct, gc=False, array_like=True):
    """What happened to the messages from `first` to `last`; the recorder alone changes one."""

    time_us: int
    step: int
    topic: str = ""
    topic_id: bytes = b""
    partition: int = UNKNOWN
    first: int = UNKNOWN
    last: int = UNKNOWN
    space: int = Space.DATA
    node: int = 0
    boot: int = 0  # when that node's process started: numbers begin again with it
    number: int = 0  # of the events of that process
    group: str = ""
    member: str = ""
    client: str = ""
    address: str = ""
    duration_us: int = UNKNOWN
    validated_us: int = UNKNOWN
    attempt: int = 0
    until_ms: int = UNKNOWN  # when it is visible or due again
    error: str = ""
    detail: str = ""
    link_topic: str = ""
    link_topic_id: bytes = b""
    link_partition: int = UNKNOWN
    link_first: int = UNKNOWN
    link_space: int = Space.DATA
    synced_us: int = UNKNOWN  # of a publish with followers: until its leader had it on disk

    @property
    def key(self) -> tuple[int, int, int]:
        """The same event may come from a ring and from the history."""
        return self.node, self.boot, self.number

    @property
    def count(self) -> int:
        return self.last - self.first + 1 if self.first >= 0 else 0

    def holds(self, place: Place) -> bool:
        """Whether this happened to the message at the place."""
        return (
            self.first <= place.offset <= self.last
            and self.partition == place.partition
            and self.space == place.space
            and self.topic_id == place.topic_id
        )

    def leads_to(self, place: Place) -> bool:
        """Whether a message went on at this place."""
        return (
            self.link_first >= 0
            and self.link_first <= place.offset <= self.link_first + self.last - self.first
            and self.link_partition == place.partition
            and self.link_space == place.space
            and self.link_topic_id == place.topic_id
        )

    def link_of(self, offset: int) -> Place | None:
        """Where the message at `offset`, which this event holds, goes on."""
        if self.link_first < 0:
            return None
        at = self.link_first + offset - self.first
        return Place(self.link_topic_id, self.link_partition, at, self.link_space)

    def source_of(self, place: Place) -> Place:
        """Where the message was that went on at `place`."""
        at = self.first + place.offset - self.link_first
        return Place(self.topic_id, self.partition, at, self.space)


def in_order(events: list[TraceEvent]) -> list[TraceEvent]:
    """By time; those of one process that have the same time as they were recorded."""
    return sorted(events, key=lambda event: (event.time_us, event.key))
