"""What the queue's verbs answer."""

from typing import Literal

import msgspec

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicName
from goqueue.model.record import Record
from goqueue.queue.lanes import NAMES
from goqueue.queue.receipts import receipt

Action = Literal["acked", "requeued", "dead", "rejected", "extended", "released"]


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """One message in a consumer's hands until `deadline`."""

    record: Record
    group_id: GroupId
    topic: TopicName
    partition: int
    attempt: int  # deliveries up to and with this one
    lease_id: int
    lane: int
    deadline: Timestamp
    failures: int = 0  # deliveries before this one that consumers nacked
    timeouts: int = 0  # and those that brought no answer

    @property
    def receipt(self) -> str:
        """What acks it."""
        return receipt(
            self.topic,
            self.partition,
            self.record.offset,
            self.attempt,
            self.lease_id,
            self.group_id,
        )

    @property
    def priority(self) -> str:
        return NAMES[self.lane]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """What became of one delivery, durably."""

    topic: TopicName
    partition: int
    offset: Offset
    attempt: int
    action: Action
    floor: Offset  # the group is done with everything below
    in_flight: int  # messages of the group in this partition
    visible_at: Timestamp | None = None  # of a requeued or released one
    deadline: Timestamp | None = None  # of an extended one
    dlq_topic: str | None = None  # where a dead or rejected one goes


SettleOutcome = Settled | GoQueueError  # a refusal, or why its ledger could not be written


class InFlight(msgspec.Struct, frozen=True, gc=False):
    """Who holds what."""

    topic: TopicName
    partition: int
    offset: Offset
    attempt: int
    consumer: str
    delivered_at: Timestamp
    deadline: Timestamp | None  # None: when its transaction ends
    receipt: str
    transaction: str | None = None  # the transactional id whose end acks it
    failures: int = 0  # deliveries before this one that consumers nacked
    timeouts: int = 0  # and those that brought no answer


class Peeked(msgspec.Struct, frozen=True, gc=False):
    """A message that would be delivered, were it asked for now."""

    record: Record
    topic: TopicName
    partition: int
    attempt: int  # deliveries so far
    priority: str


class LaneStats(msgspec.Struct, frozen=True, gc=False):
    priority: str
    ready: int  # may be delivered now; never delivered, or come back
    in_flight: int
    waiting: int  # for their retry, or for their key
    delivered: int  # in all, since the broker started
    published_a_second: float
    delivered_a_second: float
    oldest: Timestamp | None  # when the oldest ready one was published, as far as known in memory


class PartitionStats(msgspec.Struct, frozen=True, gc=False):
    topic: TopicName
    partition: int
    floor: Offset
    end: Offset
    ready: int
    in_flight: int
    waiting: int
    dead: int  # on their way to the dead letters
    lanes: tuple[LaneStats, ...]
    dead_problem: str = ""  # why these cannot be written there


class Totals(msgspec.Struct):
    """Since the broker started."""

    delivered: int = 0
    acked: int = 0
    nacked: int = 0
    rejected: int = 0
    released: int = 0
    timed_out: int = 0  # deliveries without an answer: time-outs, and consumers that died
    expired: int = 0  # messages past their time to live, dead-lettered or dropped
    extended: int = 0
    retried: int = 0  # delivered another time
    dropped: int = 0  # past their time to live, or gone from the log
    dead: dict[str, int] = msgspec.field(default_factory=dict)  # by reason


class GroupStats(msgspec.Struct, frozen=True):
    group_id: GroupId
    in_flight: int
    consumers: dict[str, int]  # who holds how many
    totals: Totals
    partitions: tuple[PartitionStats, ...]
    topic_totals: dict[TopicName, Totals]
