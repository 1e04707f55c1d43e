"""Draws docs/pictures/journey.svg: a message's journey as `goqueue trace` shows it.

python docs/pictures/journey.py
"""

import io
from pathlib import Path

from rich.console import Console

from goqueue.api.traces import LinkBody, SpanBody, TraceBody
from goqueue.cli.timelines import draw

BY = {"client_id": "shop", "address": "10.0.0.7:50122"}
WORKER = {"consumer_group": "billing", "consumer_id": "worker-1"}
OTHER = {"consumer_group": "billing", "consumer_id": "worker-2"}


def span(event: str, second: float, offset: int = 7, topic: str = "orders", **more: object):
    at = f"2026-11-16T12:00:{second:09.6f}Z"
    return SpanBody(event, at, "00f067aa0ba902b7", topic, 0, offset, **more)


SPANS = [
    span("publish.received", 1.000, **BY),
    span("publish.validated", 1.001, **BY),
    span("publish.persisted", 1.004, **BY, detail="on nodes 1, 2, 3"),
    span("consume.fetched", 1.012, **WORKER, attempt=1, until="2026-11-16T12:00:31.012Z"),
    span("visibility.timeout", 31.013, **WORKER, attempt=1, error="not acknowledged in time"),
    span("consume.fetched", 31.020, **OTHER, attempt=2),
    span("consume.nacked", 31.080, **OTHER, attempt=2, error="card declined"),
    span("dlq.routed", 31.090, consumer_group="billing", link=LinkBody("orders.dlq", 0, 0)),
    span("dlq.redriven", 52.400, 0, "orders.dlq", link=LinkBody("orders", 0, 12)),
    span("publish.persisted", 52.402, 12),
    span("consume.fetched", 52.410, 12, **WORKER, attempt=1),
    span("consume.acked", 52.431, 12, **WORKER, attempt=1),
]


def main() -> None:
    start, end = SPANS[0].timestamp, SPANS[-1].timestamp
    trace = TraceBody(
        "675f78fefc0000000000000000000007",
        None,
        "orders",
        0,
        7,
        "data",
        "completed",
        start,
        end,
        51_431.0,
        {"billing": "completed"},
        SPANS,
    )
    console = Console(width=96, record=True, file=io.StringIO(), force_terminal=True)
    console.print(draw(trace))
    svg = console.export_svg(title="goqueue trace orders/0/7")
    Path(__file__).with_suffix(".svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
