"""Recurring schedules: when they run, what they publish, and the machine that keeps them."""

from goqueue.schedules.checks import check_definition
from goqueue.schedules.due_queue import DueQueue
from goqueue.schedules.machine import Planned, Published, ScheduleMachine
from goqueue.schedules.missed import Due, find_due
from goqueue.schedules.records import ScheduleRecord
from goqueue.schedules.schedule import (
    Definition,
    Message,
    Missed,
    Plan,
    Run,
    Schedule,
)
from goqueue.schedules.template import render
from goqueue.schedules.timing import Timing, find_timing_mistakes

__all__ = [
    "Definition",
    "Due",
    "DueQueue",
    "Message",
    "Missed",
    "Plan",
    "Planned",
    "Published",
    "Run",
    "Schedule",
    "ScheduleMachine",
    "ScheduleRecord",
    "Timing",
    "check_definition",
    "find_due",
    "find_timing_mistakes",
    "render",
]
