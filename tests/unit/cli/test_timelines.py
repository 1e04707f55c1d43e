import pytest
from rich.console import Console

from goqueue.api.traces import LinkBody, SpanBody, TraceBody
from goqueue.cli.timelines import draw, facts, short_duration


def span(event: str, second: float, **more: object) -> SpanBody:
    at = f"2026-01-31T12:00:{second:09.6f}Z"
    given = {"topic": "orders", "partition": 0, "offset": 7, **more}
    return SpanBody(event, at, "00f0", **given)  # type: ignore[arg-type]


def trace(*spans: SpanBody) -> TraceBody:
    start, end = spans[0].timestamp, spans[-1].timestamp
    return TraceBody(
        "4b" * 16, None, "orders", 0, 7, "data", "error", start, end, 1500.0, {}, list(spans)
    )


def test_a_journey_is_drawn_step_by_step_and_place_by_place():
    dead = {"topic": "orders.dlq", "offset": 0}
    found = trace(
        span("publish.received", 0),
        span("publish.validated", 0.001),
        span("consume.fetched", 0.25, consumer_group="g", consumer_id="w", attempt=2),
        span("dlq.routed", 1.5, link=LinkBody("orders.dlq", 0, 0)),
        span("publish.persisted", 1.6, **dead, derived=True),
    )
    console = Console(width=100, record=True, color_system=None, force_terminal=False)
    console.print(draw(found))
    lines = [line.rstrip() for line in console.export_text().splitlines()]
    assert lines[0].startswith("orders 0/7  error  1.50s  trace 4b4b")
    assert [line.split()[0] for line in lines[1:]] == ["●", "│", "●", "●", "├─", "●"]
    assert "+250ms" in lines[3]
    assert "g w, attempt 2" in lines[3]
    assert "→ orders.dlq 0/0" in lines[4]
    assert lines[5].endswith("orders.dlq 0/0")
    assert "(from the log)" in lines[6]


def test_facts_say_who_and_why():
    assert facts(span("publish.received", 0, client_id="shop", address="1.2.3.4:5")) == (
        "by shop 1.2.3.4:5"
    )
    nacked = span("consume.nacked", 0, consumer_group="g", consumer_id="w", error="declined")
    assert facts(nacked) == "g w, declined"


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (52, "52µs"),
        (1234, "1.2ms"),
        (340_000, "340ms"),
        (1_204_000, "1.20s"),
        (312_000_000, "5m12s"),
        (7_260_000_000, "2h01m"),
    ],
)
def test_durations_are_short(microseconds: float, text: str):
    assert short_duration(microseconds) == text
