"""Delayed messages: a timer wheel, and the state machine of a partition's timers."""

from goqueue.delay.headers import (
    DELAY_HEADER,
    DELIVER_AT_HEADER,
    DUE_MAX,
    FROM_HEADER,
    NOT_DELAYED,
    due_of,
    may_hold_delays,
    publish_time,
    source_offset,
    waiting_record,
)
from goqueue.delay.machine import Copy, DelayMachine, MessageState
from goqueue.delay.records import DelayRecord
from goqueue.delay.wheel import ChunkStore, Entry, Packed

__all__ = [
    "DELAY_HEADER",
    "DELIVER_AT_HEADER",
    "DUE_MAX",
    "FROM_HEADER",
    "NOT_DELAYED",
    "ChunkStore",
    "Copy",
    "DelayMachine",
    "DelayRecord",
    "Entry",
    "MessageState",
    "Packed",
    "due_of",
    "may_hold_delays",
    "publish_time",
    "source_offset",
    "waiting_record",
]
