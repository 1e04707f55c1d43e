"""Times as texts."""

from datetime import UTC, datetime, timedelta

from goqueue.model.ids import Timestamp
from goqueue.model.times import EPOCH, parse_time
from goqueue.schedules import Timing
from goqueue.schedules.zones import zone_of


def at(text: str) -> Timestamp:
    """`2026-03-29T01:00` is in UTC."""
    return parse_time(text, zone="utc")


def local(timing: Timing, begin: str, count: int) -> list[str]:
    """The next runs as the zone's clocks show them, with the offset: `03-29 03:00+02:00`."""
    zone = zone_of(timing.timezone)
    start = datetime.fromisoformat(begin).replace(tzinfo=zone).astimezone(UTC)
    after = Timestamp((start - EPOCH) // timedelta(milliseconds=1) - 1)
    runs = timing.runs_after(after, after, count)
    shown = [(EPOCH + timedelta(milliseconds=each)).astimezone(zone) for each in runs]
    return [each.isoformat(" ", timespec="minutes")[5:] for each in shown]
