"""`goqueue pipeline dlq`: why messages died, and redriving those that match an SQL condition.

Spark finds the dead letters, the server moves them: so each is moved once whatever happens to the
job, and one that was moved or purged meanwhile is left alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.client import Client
from goqueue.spark.dlq.table import DLQ_COLUMNS, read_dead_letters, with_failure_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRIAGE_BY: Final = ("reason", "group", "consumer", "error")
ROWS_MAX: Final = 1_000
OFFSETS_AT_ONCE: Final = 1_000  # of one request, so that progress can be seen

Progress = Callable[[int, int], None]  # how many are done, of how many


class Redriven(msgspec.Struct, frozen=True):
    picked: int
    moved: int  # fewer than picked when somebody else took some meanwhile


def dead_letter_table(
    session: "SparkSession", client: Client, topic: str, servers: str
) -> "DataFrame | None":
    """The dead letters of a topic that were not taken out, as `with_story` describes them."""
    messages = read_dead_letters(session, client, topic, servers)
    return None if messages is None else with_failure_history(messages)


def triage(messages: "DataFrame", by: Sequence[str] = TRIAGE_BY) -> "DataFrame":
    """How many died for each reason, group, consumer and error, with an example."""
    from pyspark.sql import functions as sql

    return (
        messages.groupBy(*by)
        .agg(
            sql.count("*").alias("letters"),  # rule-ok: read by scripts
            sql.max("attempts").alias("attempts_max"),
            sql.min("died_at").alias("first"),
            sql.max("died_at").alias("last"),
            sql.max_by(sql.concat_ws("/", *DLQ_COLUMNS), "died_at").alias("newest"),
        )
        .orderBy(sql.desc("letters"), *by)  # rule-ok: read by scripts
    )


def pick(messages: "DataFrame", where: str | None) -> "DataFrame":
    """The dead letters that match an SQL condition; all when there is none."""
    return messages if where is None else messages.where(where)


def redrive(
    messages: "DataFrame",
    client: Client,
    topic: str,
    *,
    to: str | None = None,
    limit: int | None = None,
    rate: float | None = None,
    progress: Progress = lambda done, total: None,
) -> Redriven:
    """Have the server put these dead letters back, oldest first within each partition."""
    ordered = messages.select(*DLQ_COLUMNS).orderBy(*DLQ_COLUMNS)
    rows = (ordered if limit is None else ordered.limit(limit)).collect()
    moved = done = 0
    for partition, offsets in _requests((row[0], row[1]) for row in rows):
        which = {"partition": partition, "offsets": offsets}
        moved += client.redrive(topic, which, to=to, limit=len(offsets), rate=rate).moved
        done += len(offsets)
        progress(done, len(rows))
    return Redriven(len(rows), moved)


def _requests(places: Iterator[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    """The offsets of one partition at a time, not too many at once; `places` are in order."""
    partition, offsets = -1, list[int]()
    for place, offset in places:
        if offsets and (place != partition or len(offsets) >= OFFSETS_AT_ONCE):
            yield partition, offsets
            offsets = []
        partition = place
        offsets.append(offset)
    if offsets:
        yield partition, offsets
