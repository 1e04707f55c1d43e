"""What a replay is told, by a program or by the command line."""

from typing import Annotated, Literal

import msgspec

from goqueue.model.options import FixedTimeMs, option
from goqueue.spark.replay.windows import Span, Spans


class Choice(msgspec.Struct, frozen=True):
    """Which messages to take; None: all."""

    from_ms: Annotated[
        FixedTimeMs | None, option("Start time: 2026-01-31T12:00:00Z.", "--since")
    ] = None
    until_ms: Annotated[FixedTimeMs | None, option("End time, exclusive.", "--before")] = None
    from_offset: Annotated[int | None, option("Start offset in each partition.", min=0)] = None
    until_offset: Annotated[
        int | None, option("End offset in each partition, exclusive.", "--before-offset", min=0)
    ] = None
    partitions: Annotated[
        tuple[int, ...], option("Only this partition. May be repeated.", "--partition", min=0)
    ] = ()
    where: Annotated[
        str | None, option("Condition: \"price > 100 and customer = 'a'\".", metavar="SQL")
    ] = None

    def narrow(self, spans: Spans) -> dict[int, Span]:
        """What offsets and partitions leave of spans."""
        found = {
            partition: Span(
                max(each.start, self.from_offset or 0),
                each.end if self.until_offset is None else min(each.end, self.until_offset),
            )
            for partition, each in spans.items()
            if not self.partitions or partition in self.partitions
        }
        return {partition: each for partition, each in found.items() if each.start < each.end}


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    bootstrap: str = "localhost:9092"
    """Kafka listener of the broker to write to."""
    to: Annotated[str, option("Target topic; created if missing.", metavar="TOPIC")]
    archive: Annotated[
        str | None,
        option("Table of an archive to replay: directory or s3:// URL.", "-d", metavar="DIR"),
    ] = None
    catalog: Annotated[
        str | None,
        option(
            "Iceberg catalog of the table, as PyIceberg's configuration names it.",
            metavar="NAME",
        ),
    ] = None
    topic: Annotated[str | None, option("Topic to replay.", "-t", metavar="TOPIC")] = None
    source_bootstrap: Annotated[
        str | None, option("Broker of --topic, if different.", metavar="HOST:PORT")
    ] = None
    choice: Choice = Choice()
    partitions: Literal["keep", "key"] = "keep"
    """Where messages go: into the partition that they come from, or where their key belongs."""
    times: Literal["keep", "now"] = "keep"
    name: Annotated[
        str | None,
        option("Name of the replay. Each name runs once; use a new one to repeat."),
    ] = None
    """By default, what is asked for."""
    state: Annotated[
        str, option("Directory for the state that a restart needs.", metavar="DIR")
    ] = "replays"
    window: Annotated[int, option("Offsets per transaction.", min=1, max=1 << 40)] = 500_000
    """Of each partition."""
    http: str | None = None
