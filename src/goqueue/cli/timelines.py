"""A message's journey, drawn for a terminal.

orders 0/7  completed  1.204 s  trace 675f78fe…
● 12:37:13.198        publish.received    by curl/7.88.1 127.0.0.1:40152
│ 12:37:13.250  +52ms publish.persisted   on nodes 1, 2, 3
● 12:37:13.292  +94ms consume.fetched     billing worker-1, attempt 1
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from goqueue.model.times import EPOCH

if TYPE_CHECKING:
    from rich.console import RenderableType

    from goqueue.api.traces import SpanBody, TraceBody

STATUS_COLOURS: Final = {
    "completed": "bold green",
    "pending": "cyan",
    "retrying": "yellow",
    "delayed": "blue",
    "expired": "magenta",
    "error": "bold red",
}
EVENT_COLOURS: Final = {
    "publish.rejected": "red",
    "consume.acked": "green",
    "consume.nacked": "yellow",
    "consume.rejected": "red",
    "visibility.timeout": "yellow",
    "retry.scheduled": "yellow",
    "dlq.routed": "red",
    "dlq.redriven": "cyan",
    "txn.aborted": "red",
    "delay.expired": "magenta",
    "leader.changed": "dim",
    "group.rebalanced": "dim",
}
QUIET: Final = frozenset({"publish.validated", "leader.changed", "group.rebalanced"})


def draw(trace: "TraceBody") -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    for name in ("mark", "time", "since", "event"):
        table.add_column(name, no_wrap=True, justify="right" if name == "since" else "left")
    table.add_column("facts", overflow="fold", ratio=1)
    start, place = None, (trace.topic, trace.partition, trace.offset, trace.space)
    for span in trace.spans:
        at = _moment(span.timestamp)
        start = start or at
        here = span.topic, span.partition, span.offset, span.space
        if here != place and span.offset >= 0 and span.event_type not in QUIET:
            place = here
            table.add_row("├─", "", "", Text(_place(*here), style="bold"), "")
        quiet = span.event_type in QUIET
        colour = EVENT_COLOURS.get(span.event_type, "dim" if quiet else "default")
        table.add_row(
            Text("│" if quiet else "●", style=colour),
            Text(_clock(at), style="dim"),
            Text(_since(start, at), style="dim"),
            Text(span.event_type, style=colour),
            Text(facts(span)),
        )
    return Group(_heading(trace), table)


def _heading(trace: "TraceBody") -> "RenderableType":
    from rich.text import Text

    place = trace.topic, trace.partition, trace.offset, trace.space
    text = Text(_place(*place), style="bold")
    text.append("  ")
    text.append(trace.status, style=STATUS_COLOURS[trace.status])
    text.append(f"  {short_duration(trace.duration_ms * 1000)}  trace {trace.trace_id}", "dim")
    return text


def facts(span: "SpanBody") -> str:
    """Who, which attempt, until when, why and where to."""
    who = " ".join(each for each in (span.consumer_group, span.consumer_id) if each)
    client = " ".join(each for each in (span.client_id, span.address) if each)
    found = [who or (f"by {client}" if client else "")]
    if span.attempt and span.event_type.startswith(("consume", "visibility")):
        found.append(f"attempt {span.attempt}")
    if span.until is not None:
        found.append(f"until {_clock(_moment(span.until))}")
    if span.link is not None:
        link = span.link
        found.append(f"→ {_place(link.topic, link.partition, link.offset, link.space)}")
    found += [span.detail, span.error]
    if span.derived:
        found.append("(from the log)")
    return ", ".join(each for each in found if each)


def _place(topic: str, partition: int, offset: int, space: str) -> str:
    if offset < 0:
        return f"{topic} {partition}"
    return f"{topic} {partition}/{offset}" + (" (delayed)" if space == "delays" else "")


def _moment(text: str | int | None) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _clock(moment: datetime | None) -> str:
    """In local time: journeys are looked at by people."""
    if moment is None or moment < EPOCH:
        return "-"
    return moment.astimezone().strftime("%H:%M:%S.%f")[:-3]


def _since(start: datetime | None, at: datetime | None) -> str:
    if start is None or at is None or at == start:
        return ""
    return "+" + short_duration((at - start).total_seconds() * 1e6)


def short_duration(microseconds: float) -> str:
    """With three digits: 52µs, 1.2ms, 340ms, 1.20s, 5m12s."""
    if microseconds < 1000:
        return f"{microseconds:.0f}µs"
    if microseconds < 10_000:
        return f"{microseconds / 1000:.1f}ms"
    if microseconds < 1_000_000:
        return f"{microseconds / 1000:.0f}ms"
    seconds = microseconds / 1e6
    if seconds < 60:
        return f"{seconds:.2f}s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
