"""What a report is told, by a program or by the command line."""

from typing import Annotated

import msgspec

from goqueue.model.options import DurationMs, TimeMs, argument, option


class ReportOptions(msgspec.Struct, frozen=True, kw_only=True):
    topics: Annotated[tuple[str, ...], argument("Topics of the report.", metavar="TOPIC...")]
    servers: str = "localhost:9092"
    """Of the Kafka listener."""
    from_ms: Annotated[TimeMs | None, option("Start time: -1h, or RFC 3339.", "--since")] = None
    to_ms: Annotated[TimeMs | None, option("End time, exclusive.", "--before")] = None
    origin: Annotated[
        str | None,
        option(
            "Where a message has its time of origin: header:NAME or json:$.field.",
            metavar="WHERE",
        ),
    ] = None
    sla_ms: Annotated[DurationMs | None, option("Latency objective: 500ms, 2s.", "--sla")] = None
    keys: Annotated[int, option("Number of hot keys.", min=1, max=1_000)] = 20
    bucket_seconds: int | None = None
    """None: so that there are not too many."""
