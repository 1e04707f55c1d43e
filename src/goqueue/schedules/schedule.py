"""What a schedule is, and what is known of its runs."""

import enum
from typing import Final

import msgspec

from goqueue.model.ids import Offset, Timestamp, TopicId, TopicName
from goqueue.model.record import Headers
from goqueue.schedules.timing import Timing

MISSED_MAX: Final = 1_000  # runs that are made up for
MISSED_DEFAULT: Final = 100
GRACE_MS_DEFAULT: Final = 60_000
REQUESTS_MAX: Final = 100  # runs that somebody asked for and that wait


class Missed(enum.StrEnum):
    """What becomes of runs that nobody could publish in time."""

    SKIP = "skip"  # none is made up for
    ONE = "one"  # the newest of them
    ALL = "all"  # all, up to a bound


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """What each run publishes."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    is_template: bool = True  # its texts have placeholders

    @property
    def size(self) -> int:
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return len(self.value or b"") + len(self.key or b"") + headers


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What somebody wants."""

    name: str
    topic: TopicName
    timing: Timing
    message: Message
    max_runs: int | None = None
    missed: Missed = Missed.ONE
    missed_max: int = MISSED_DEFAULT
    grace_ms: int = GRACE_MS_DEFAULT
    description: str = ""


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run that is decided: where it goes, and the producer that tells its batch apart."""

    number: int
    scheduled_at: Timestamp
    topic: TopicName
    topic_id: TopicId
    partition: int
    behind: Offset  # the batch is not before this one
    producer_id: int
    producer_epoch: int
    is_manual: bool = False


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One that was published."""

    number: int
    scheduled_at: Timestamp
    published_at: Timestamp
    topic: TopicName
    partition: int
    offset: Offset
    is_manual: bool = False


class Schedule(msgspec.Struct, frozen=True, omit_defaults=True, tag="schedule"):
    """The whole state of one; a new one for each change.  Also its record in a snapshot."""

    definition: Definition
    version: int
    created_at: Timestamp
    updated_at: Timestamp
    anchor: Timestamp  # that intervals count from
    handled: Timestamp  # runs up to here are published, planned or skipped
    next_at: Timestamp | None = None  # the first run after that; None: there is none
    accepted: Timestamp = Timestamp(0)  # missed runs up to here are made up for
    paused_at: Timestamp | None = None
    run_count: int = 0
    missed_count: int = 0  # skipped, that is
    plan: Plan | None = None
    requests: tuple[Timestamp, ...] = ()
    last_request: Timestamp = Timestamp(0)
    producer_id: int = -1
    producer_epoch: int = -1
    runs: tuple[Run, ...] = ()  # the newest last

    @property
    def is_paused(self) -> bool:
        return self.paused_at is not None

    @property
    def has_all_runs(self) -> bool:
        most = self.definition.max_runs
        return most is not None and self.run_count >= most

    @property
    def is_finished(self) -> bool:
        return self.next_at is None and self.plan is None and not self.requests

    @property
    def status(self) -> str:
        if self.is_paused:
            return "paused"
        return "finished" if self.is_finished else "active"

    @property
    def wakes_at(self) -> Timestamp | None:
        """When there is something to publish; 0: now."""
        if self.is_paused and (self.plan is None or not self.plan.is_manual):
            return Timestamp(0) if self.requests and self.plan is None else None
        if self.plan is not None or self.requests:
            return Timestamp(0)
        return self.next_at

    def next_after(self, after: Timestamp) -> Timestamp | None:
        return self.definition.timing.next_after(after, self.anchor)
