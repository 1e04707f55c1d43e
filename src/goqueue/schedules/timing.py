"""When a schedule runs: by a cron expression in a time zone, or at a fixed interval.

    start                                         end
    ├──── anchor, anchor + every, … ──────────────┤     every: real time, whatever clocks show
    ├──── 09:00 Mon-Fri in Asia/Karachi ──────────┤     cron:  the zone's clocks

`start` and `end` are inside.  An interval without a start has its first run one interval after it
was set.
"""

from typing import Final

import msgspec

from goqueue.model.durations import duration_text
from goqueue.model.ids import Timestamp
from goqueue.schedules.cron import find_cron_mistakes, parse_cron
from goqueue.schedules.errors import Mistake
from goqueue.schedules.zones import UTC_NAME, find_zone_mistakes, zone_of

INTERVAL_MS_MIN: Final = 1_000
INTERVAL_MS_MAX: Final = 100 * 366 * 86_400_000
WINDOW_MS: Final = 60_000  # in which the newest runs before a time are looked for at first


class Timing(msgspec.Struct, frozen=True, omit_defaults=True):
    cron: str = ""
    every_ms: int = 0
    timezone: str = UTC_NAME
    start: Timestamp | None = None
    end: Timestamp | None = None

    def next_after(self, after: Timestamp, anchor: Timestamp) -> Timestamp | None:
        """The first run later than that; None when there is none any more."""
        if self.start is not None:
            after = max(after, Timestamp(self.start - 1))
        found = self._next_after(after, anchor)
        if found is None or (self.end is not None and found > self.end):
            return None
        return found

    def _next_after(self, after: Timestamp, anchor: Timestamp) -> Timestamp | None:
        if self.cron:
            return parse_cron(self.cron).next_after(after, zone_of(self.timezone))
        first = anchor if self.start is not None else anchor + self.every_ms
        steps = max(0, (after - first) // self.every_ms + 1)
        return Timestamp(first + steps * self.every_ms)

    def runs_after(self, after: Timestamp, anchor: Timestamp, count: int) -> list[Timestamp]:
        """The next so many."""
        found: list[Timestamp] = []
        while len(found) < count:
            following = self.next_after(after, anchor)
            if following is None:
                break
            found.append(following)
            after = following
        return found

    def newest_runs(
        self, after: Timestamp, until: Timestamp, anchor: Timestamp, count: int
    ) -> list[Timestamp]:
        """The last so many of the runs later than `after`, up to `until`, in order.

        Years may lie between: they are looked for backwards, in windows that grow.
        """
        window = WINDOW_MS
        while True:
            begin = Timestamp(max(after, until - window))
            found: list[Timestamp] = []
            following = self.next_after(begin, anchor)
            while following is not None and following <= until:
                found.append(following)
                following = self.next_after(following, anchor)
            if len(found) >= count or begin == after:
                return found[-count:]
            window *= 2

    def describe(self) -> str:
        if self.cron:
            return f"{parse_cron(self.cron).describe()} ({self.timezone})"
        return f"Every {duration_text(self.every_ms)}"


def find_timing_mistakes(timing: Timing, now: Timestamp) -> list[Mistake]:
    """All of them; also when it would never run."""
    found: list[Mistake] = []
    if bool(timing.cron) == bool(timing.every_ms):
        found.append(Mistake("cron", "give either `cron` or `every`"))
    if timing.cron:
        found += find_cron_mistakes(timing.cron)
    elif timing.every_ms and not INTERVAL_MS_MIN <= timing.every_ms <= INTERVAL_MS_MAX:
        found.append(Mistake("every", f"{timing.every_ms} ms; 1s to 100 years are possible"))
    found += find_zone_mistakes(timing.timezone)
    if timing.every_ms and timing.timezone != UTC_NAME:
        found.append(Mistake("timezone", "an interval has none: it runs in real time"))
    if timing.start is not None and timing.end is not None and timing.end < timing.start:
        found.append(Mistake("end", "it is before `start`"))
    if not found and timing.next_after(now, timing.start or now) is None:
        found.append(Mistake("end" if timing.end is not None else "cron", "it would never run"))
    return found
