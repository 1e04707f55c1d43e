"""What the machine of schedules writes to `__schedules`."""

import msgspec

from goqueue.model.ids import Offset, Timestamp
from goqueue.schedules.schedule import Definition, Plan, Schedule


class ScheduleSet(msgspec.Struct, frozen=True, tag="set"):
    """Created, or replaced."""

    definition: Definition
    version: int
    at: Timestamp
    anchor: Timestamp
    handled: Timestamp
    next_at: Timestamp | None
    is_paused: bool = False


class SchedulePaused(msgspec.Struct, frozen=True, tag="paused"):
    name: str
    at: Timestamp


class ScheduleResumed(msgspec.Struct, frozen=True, tag="resumed"):
    name: str


class ScheduleDeleted(msgspec.Struct, frozen=True, tag="deleted"):
    name: str


class RunRequested(msgspec.Struct, frozen=True, tag="requested"):
    """Somebody wants a run beside the usual ones."""

    name: str
    at: Timestamp


class RunsSkipped(msgspec.Struct, frozen=True, tag="skipped"):
    name: str
    handled: Timestamp
    next_at: Timestamp | None
    count: int


class RunPlanned(msgspec.Struct, frozen=True, tag="planned", omit_defaults=True):
    """Durable before the batch is appended; with the runs that are skipped before it."""

    name: str
    plan: Plan
    handled: Timestamp
    next_at: Timestamp | None
    skipped: int = 0
    accepted: Timestamp = Timestamp(0)


class RunPublished(msgspec.Struct, frozen=True, tag="published"):
    """The batch is in the topic, durably."""

    name: str
    producer_id: int
    producer_epoch: int
    offset: Offset
    at: Timestamp


ScheduleRecord = (
    ScheduleSet
    | SchedulePaused
    | ScheduleResumed
    | ScheduleDeleted
    | RunRequested
    | RunsSkipped
    | RunPlanned
    | RunPublished
    | Schedule
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[ScheduleRecord] = msgspec.json.Decoder(ScheduleRecord)


def encode(record: ScheduleRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> ScheduleRecord:
    return _decoder.decode(data)
