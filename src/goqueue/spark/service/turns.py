"""Which pipelines are live, where there are more of them than may be live at a time.

A live query holds a Python process for each source, and memory of the JVM: some 70 MiB.  So only so
many are live; the others wait for their first start, or are parked: closed, until their topics have
something new.  Nobody is parked while there is room.

    waiting ──(room)──> live ──(somebody waits, and this one has nothing to read)──> parked
       ^                 └───(somebody waits, and its turn is over)──────> parked      │
       └───────────────────(its topics have something new)────────────────────────────┘
"""

from collections.abc import Sequence
from typing import Final

import msgspec

TURN_SECONDS: Final = 30.0  # for which one with more to read is left alone
REST_SECONDS: Final = 2.0  # without a new batch, before it counts as having nothing to read
BEGIN_MAX: Final = 8  # in one step: each start takes a second or so


class Live(msgspec.Struct, frozen=True):
    name: str
    queries: int
    since: float
    """When its turn began."""
    rests_since: float | None = None
    """Since when it has nothing to read; None: it has, or nobody knows yet."""
    has_moved: bool = False
    """It finished a batch in this turn, so to end the turn loses one batch's work at most."""


class Waiting(msgspec.Struct, frozen=True):
    """For its first start, or parked with something new to read."""

    name: str
    queries: int
    since: float


class Turn(msgspec.Struct, frozen=True):
    """What to do now: those that are parked first, for the others' room."""

    park: list[str]
    begin: list[str]


def take_turns(
    live: Sequence[Live], waiting: Sequence[Waiting], queries_max: int, now: float
) -> Turn:
    """Who waited longest begins first, and nobody overtakes one that needs more room."""
    free = queries_max - sum(each.queries for each in live)
    leaving = _order_to_leave(live, now)
    staying = len(live)
    park: list[str] = []
    begin: list[str] = []
    for each in sorted(waiting, key=lambda each: each.since):
        room = free + sum(other.queries for other in leaving)
        is_alone = staying == len(leaving) and not begin  # nobody would be left beside it
        if len(begin) == BEGIN_MAX or (room < each.queries and not is_alone):
            break
        while free < each.queries and leaving:
            gone = leaving.pop(0)
            park.append(gone.name)
            free += gone.queries
            staying -= 1
        begin.append(each.name)
        free -= each.queries
    return Turn(park, begin)


def _order_to_leave(live: Sequence[Live], now: float) -> list[Live]:
    """First those with nothing to read, who rested longest; then those whose turn is over."""
    resting = [
        (each.rests_since, each)
        for each in live
        if each.rests_since is not None and now - each.rests_since >= REST_SECONDS
    ]
    found = [each for _, each in sorted(resting, key=lambda pair: pair[0])]
    busy = [
        each
        for each in live
        if each.rests_since is None and each.has_moved and now - each.since >= TURN_SECONDS
    ]
    return found + sorted(busy, key=lambda each: each.since)
