"""The report as one HTML page that needs nothing beside it."""

import datetime
import html
from collections.abc import Sequence
from typing import Any, Final, cast

from goqueue.spark.report.charts import bars, lines, short_number
from goqueue.spark.report.figures import GroupFigures, ReportFigures, Row, TopicFigures

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2530; --soft: #66727f; --line: #d9dfe5; --page: #f6f8fa;
  --card: #ffffff; --c0: #2563eb; --c1: #d97706; --c2: #dc2626; --bad: #b91c1c; --good: #15803d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaef; --soft: #93a1b0; --line: #2c3743;
  --page: #10161d; --card: #18212b; --c0: #60a5fa; --c1: #fbbf24; --c2: #f87171; --bad: #f87171;
  --good: #4ade80; } }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1rem 4rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 } h2 { margin: 2.5rem 0 .75rem; font-size: 1.3rem }
h3 { margin: 0 0 .5rem; font-size: 1rem } p.note { color: var(--soft); margin: .25rem 0 }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem }
.card, section.chart { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: .75rem 1rem } section.chart { margin-top: .75rem; overflow-x: auto }
.card b { display: block; font-size: 1.25rem; overflow-wrap: anywhere }
.card span { color: var(--soft) }
.bad { color: var(--bad) } .good { color: var(--good) }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line) }
th { color: var(--soft); font-weight: 500 } td.number, th.number { text-align: right }
svg { width: 100%; height: auto; display: block } .grid { stroke: var(--line) }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif } svg .axis { fill: var(--soft) }
.series-0 { fill: var(--c0) } .series-1 { fill: var(--c1) } .series-2 { fill: var(--c2) }
.line-0, .line-1, .line-2 { fill: none; stroke-width: 2 } .line-0 { stroke: var(--c0) }
.line-1 { stroke: var(--c1) } .line-2 { stroke: var(--c2) }
.area-0 { fill: var(--c0); opacity: .15 } .key { color: var(--soft) }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin: 0 .3em 0 1em; vertical-align: -.05em }
""".strip()


def page(figures: ReportFigures) -> str:
    title = "GoQueue report: " + ", ".join(each.topic for each in figures.topics)
    body = "".join(_topic(each, figures) for each in figures.topics)
    made = figures.made_at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>GoQueue report</h1><p class="note">{html.escape(figures.server)} ·'
        f" {html.escape(figures.period)} · made {made}</p>{body}</body></html>\n"
    )


def _topic(topic: TopicFigures, figures: ReportFigures) -> str:
    return "".join(
        (
            f"<h2>{html.escape(topic.topic)}</h2>",
            _cards(topic, figures.sla_ms),
            _throughput(topic),
            _latency(topic, figures),
            _groups(topic, figures.sla_ms),
            _hot_keys(topic),
            _partitions(topic),
            _dead_letters(topic),
        )
    )


def _cards(topic: TopicFigures, sla_ms: float | None) -> str:
    totals = topic.totals
    seconds = _seconds(totals)
    cards = [
        _card("messages", f"{_number(totals, 'messages'):,.0f}"),
        _card("bytes", _bytes(_number(totals, "bytes"))),
        _card("messages a second", short_number(_number(totals, "messages") / seconds)),
    ]
    if _number(totals, "timed"):
        cards.append(_card("latency p50", _ms(_number(totals, "latency_p50_ms"))))
        cards.append(_card("latency p99", _ms(_number(totals, "latency_p99_ms"))))
        if sla_ms is not None:
            kept = 1 - _number(totals, "late") / _number(totals, "timed")
            tone = "good" if kept >= 0.99 else "bad"
            cards.append(_card(f"within {_ms(sla_ms)}", f"{kept:.2%}", tone))
    dead = sum(_number(row, "messages") for row in topic.dead_letters)
    cards.append(_card("dead letters", f"{dead:,.0f}", "bad" if dead else "good"))
    return f'<div class="cards">{"".join(cards)}</div>'


def _card(label: str, value: str, tone: str = "") -> str:
    return (
        f'<div class="card"><b class="{tone}">{html.escape(value)}</b>'
        f"<span>{html.escape(label)}</span></div>"
    )


def _throughput(topic: TopicFigures) -> str:
    seconds = topic.bucket_seconds
    points = [(_time(row), _number(row, "messages") / seconds) for row in topic.timeline]
    chart = lines([("messages a second", points)], "/s", filled=True)
    return _section("Throughput", f"messages a second, in steps of {seconds} s", chart)


def _latency(topic: TopicFigures, figures: ReportFigures) -> str:
    timed = [row for row in topic.timeline if row["timed"]]
    if not timed:
        why = (
            "To see latency, name the header or the field that holds the time at which a message"
            " began: --origin header:NAME or --origin json:$.field"
            if figures.origin is None
            else f"No message tells its origin in {figures.origin}."
        )
        return _section("Latency", why, "")
    series = [
        (name, [(_time(row), _number(row, f"latency_{name}_ms")) for row in timed])
        for name in ("p50", "p95", "p99")
    ]
    note = f"from {figures.origin} to the message's timestamp, in milliseconds"
    return _section("Latency", note, lines(series, " ms", filled=False) + _key("p50", "p95", "p99"))


def _groups(topic: TopicFigures, sla_ms: float | None) -> str:
    if not topic.groups:
        return _section("Consumer groups", "No group reads this topic.", "")
    chart = bars(
        [(each.group, float(each.lag), f"{each.lag:,}") for each in topic.groups if each.lag]
    )
    rows = [
        [each.group, each.state, f"{each.lag:,}", _waiting(each), _promise(each, sla_ms)]
        for each in topic.groups
    ]
    columns = ["group", "state", "#lag", "#oldest waits", "promise"]
    return _section("Consumer groups", "messages not read yet", chart + _table(columns, rows))


def _waiting(group: GroupFigures) -> str:
    return "" if group.waiting_ms is None else _ms(group.waiting_ms)


def _promise(group: GroupFigures, sla_ms: float | None) -> str:
    if sla_ms is None:
        return ""
    return "kept" if (group.waiting_ms or 0) <= sla_ms else f"broken: more than {_ms(sla_ms)}"


def _hot_keys(topic: TopicFigures) -> str:
    rows = [
        (
            str(row["key"]),
            _number(row, "messages"),
            f"{_number(row, 'messages'):,.0f} ({_number(row, 'share'):.1%})",
        )
        for row in topic.hot_keys
    ]
    return _section("Hot keys", "most messages; share of all that have a key", bars(rows))


def _partitions(topic: TopicFigures) -> str:
    rows = [
        (
            f"partition {row['partition']}",
            _number(row, "messages"),
            f"{_number(row, 'messages'):,.0f} · {_bytes(_number(row, 'bytes'))}",
        )
        for row in topic.partitions
    ]
    return _section("Partitions", "how evenly messages lie", bars(rows))


def _dead_letters(topic: TopicFigures) -> str:
    if not topic.dead_letters:
        return _section("Dead letters", "None.", "")
    by_reason: dict[str, float] = {}
    for row in topic.dead_letters:
        reason = str(row["reason"]) or "put there by hand"
        by_reason[reason] = by_reason.get(reason, 0) + _number(row, "messages")
    chart = bars([(reason, count, f"{count:,.0f}") for reason, count in by_reason.items()])
    rows = [
        [str(row[name]) for name in ("reason", "group", "error", "messages")]
        for row in topic.dead_letters[:50]
    ]
    table = _table(["reason", "group", "error", "#messages"], rows)
    return _section("Dead letters", "why messages died", chart + table)


def _section(title: str, note: str, content: str) -> str:
    return (
        f'<section class="chart"><h3>{html.escape(title)}</h3>'
        f'<p class="note">{html.escape(note)}</p>{content}</section>'
    )


def _key(*names: str) -> str:
    marks = "".join(
        f'<i style="background: var(--c{number})"></i>{html.escape(name)}'
        for number, name in enumerate(names)
    )
    return f'<div class="key">{marks}</div>'


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`#` before a column's name: numbers."""
    kinds = [' class="number"' if name.startswith("#") else "" for name in columns]
    head = "".join(
        f"<th{kind}>{html.escape(name.lstrip('#'))}</th>"
        for kind, name in zip(kinds, columns, strict=True)
    )
    lines_of_cells = (
        "".join(
            f"<td{kind}>{html.escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)
        )
        for row in rows
    )
    body = "".join(f"<tr>{cells}</tr>" for cells in lines_of_cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(cast(Any, value)) if value is not None else 0.0


def _time(row: Row) -> datetime.datetime:
    return cast(datetime.datetime, row["bucket"])


def _seconds(totals: Row) -> float:
    first, last = totals.get("first"), totals.get("last")
    if isinstance(first, datetime.datetime) and isinstance(last, datetime.datetime):
        return max(1.0, (last - first).total_seconds())
    return 1.0


def _ms(value: float) -> str:
    if value < 1_000:
        return f"{value:.0f} ms"
    if value < 120_000:
        return f"{value / 1_000:.1f} s"
    if value < 7_200_000:
        return f"{value / 60_000:.0f} min"
    return f"{value / 3_600_000:.1f} h"


def _bytes(value: float) -> str:
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= limit:
            return f"{value / limit:.1f} {unit}"
    return f"{value:.0f} B"
