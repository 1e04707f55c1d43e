"""Which run of a schedule is due, and which are missed.

All runs up to now that were not published yet are late; usually that is one, and by milliseconds.
After an outage, or a pause, there may be many:

    skip    only the newest is published, and only within the grace period
    one     the newest is published, however late it is
    all     all are published, in order; of more than `missed_max` the newest

The others are skipped and counted.
"""

from typing import Final

import msgspec

from goqueue.model.ids import Timestamp
from goqueue.schedules.schedule import Missed, Schedule

COUNTED_MAX: Final = 1_000  # of more missed runs it is said that there are so many


class Due(msgspec.Struct, frozen=True):
    """What to do now: publish one run, skip some, or both."""

    scheduled_at: Timestamp | None  # None: nothing is published
    handled: Timestamp
    next_at: Timestamp | None
    skipped: int = 0
    accepted: Timestamp = Timestamp(0)
    is_manual: bool = False


def find_due(schedule: Schedule, now: Timestamp) -> Due | None:
    """None: nothing is due."""
    if schedule.requests:
        return _due_request(schedule)
    first = schedule.next_at
    if schedule.is_paused or first is None or first > now:
        return None
    following = schedule.next_after(first)
    if following is None or following > now or first <= schedule.accepted:
        is_late = now - first > schedule.definition.grace_ms
        if is_late and schedule.definition.missed is Missed.SKIP:
            return Due(None, first, following, 1)
        return _publish(schedule, first, following)
    return _catch_up(schedule, first, now)


def _due_request(schedule: Schedule) -> Due:
    """A run that somebody asked for changes nothing about the others, but for their number."""
    following = schedule.next_at
    if _is_last(schedule):
        following = None
    return Due(schedule.requests[0], schedule.handled, following, is_manual=True)


def _publish(
    schedule: Schedule,
    at: Timestamp,
    following: Timestamp | None,
    skipped: int = 0,
    accepted: Timestamp | None = None,
) -> Due:
    if _is_last(schedule):
        following = None
    return Due(at, at, following, skipped, schedule.accepted if accepted is None else accepted)


def _is_last(schedule: Schedule) -> bool:
    most = schedule.definition.max_runs
    return most is not None and schedule.run_count + 1 >= most


def _catch_up(schedule: Schedule, first: Timestamp, now: Timestamp) -> Due:
    """There are several."""
    definition, timing = schedule.definition, schedule.definition.timing
    wanted = definition.missed_max if definition.missed is Missed.ALL else 1
    before = Timestamp(first - 1)
    chosen = timing.newest_runs(before, now, schedule.anchor, wanted)
    skipped = _count_before(schedule, first, chosen[0])
    following = schedule.next_after(chosen[0])
    if definition.missed is Missed.SKIP and now - chosen[0] > definition.grace_ms:
        return Due(None, chosen[0], following, skipped + 1)
    accepted = chosen[-1] if len(chosen) > 1 else None
    return _publish(schedule, chosen[0], following, skipped, accepted)


def _count_before(schedule: Schedule, first: Timestamp, end: Timestamp) -> int:
    count, at = 0, first
    while at < end and count < COUNTED_MAX:
        count += 1
        following = schedule.next_after(at)
        if following is None:
            break
        at = following
    return count
