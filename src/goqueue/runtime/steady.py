"""Time for deadlines that are written: a wall clock that nobody can set.

It begins with the wall clock and then goes on with the monotonic one.  When the wall clock is set,
or a machine slept, the two differ from then on, and the steady clock makes up for that slowly: it
runs at most one part in `SLEW` faster or slower.  So what is to last two seconds lasts two seconds,
whatever is done to the wall clock, and a time that was written means nearly the same to the next
process.

    wall     ────────────┐            ┌── set back, and right again
                         └────────────┘
    steady   ─────────────────────────────  a little slower meanwhile
"""

from typing import Final

from goqueue.model.ids import Instant, Timestamp

SLEW: Final = 100
MILLISECOND: Final = 1_000_000  # nanoseconds; a difference that is not made up for, but taken over


class SteadyTime:
    def __init__(self, wall: Timestamp, instant: Instant) -> None:
        self._time = wall * MILLISECOND  # invariant: never falls
        self._instant = instant

    def read(self, wall: Timestamp, instant: Instant) -> Timestamp:
        """The steady time, when the two clocks say this."""
        elapsed = instant - self._instant
        expected = self._time + elapsed
        time = wall * MILLISECOND
        if not -MILLISECOND <= time - expected <= MILLISECOND:
            most = elapsed // SLEW
            time = expected + max(-most, min(most, time - expected))
        if time < self._time:
            time = self._time
        self._time = time
        self._instant = instant
        return Timestamp(time // MILLISECOND)
