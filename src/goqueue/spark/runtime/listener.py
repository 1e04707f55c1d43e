"""Shows a stream's offsets as those of a consumer group, so that lag tools see Spark jobs.

Spark keeps its own offsets, in the checkpoint; what is published is for people.  A stream with the
option `group` publishes by itself, wherever it runs (see `stream_offsets`).  For the others this
listener does, in our sessions, under a name made of the query's: after every micro-batch, the last
one included.

How it knows the broker: the stream reports `{"orders": {"0": 42}, "@HOST:PORT": {}}` for its latest
offsets.  No topic has an `@` in its name, and an empty entry adds nothing to anybody's lag.
"""

import atexit
import contextlib
from collections.abc import Iterable
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from goqueue.client.errors import BadLogin
from goqueue.client.kafka import read_login
from goqueue.spark.source.group_offsets import GroupOffsets
from goqueue.spark.source.offsets import LOGIN_NOTE, broker_of, decode_offsets, places_of
from goqueue.spark.source.positions import Places

TIMEOUT_S: Final = 5.0
GROUP_PREFIX: Final = "spark-"


class OffsetPublisher(StreamingQueryListener):
    """One for each session; whatever fails here is told to the log and to nobody else."""

    def __init__(self) -> None:
        self._group_offsets = GroupOffsets(timeout_s=TIMEOUT_S)

    @classmethod
    def attach(cls, spark: SparkSession) -> None:
        """Once for a session, however often it is asked for."""
        if not getattr(spark, "_goqueue_publisher", None):
            publisher = cls()
            spark.streams.addListener(publisher)
            spark._goqueue_publisher = publisher  # type: ignore[attr-defined]
            # Spark prints a trace for each event that finds nobody: a program that ends without
            # `spark.stop()` leaves its queries running until the JVM notices.
            atexit.register(_detach, spark, publisher)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        group = group_name(progress.name, str(progress.id))
        sources = [(source.latestOffset, source.endOffset) for source in progress.sources]
        for broker, reached in offsets_to_publish(sources):
            address, _, login_file = broker.partition(LOGIN_NOTE)
            try:
                login = read_login(login_file) if login_file else None
            except BadLogin:  # the stream itself says what is wrong with it
                continue
            self._group_offsets.publish(address, group, reached, login)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass


def _detach(spark: SparkSession, publisher: OffsetPublisher) -> None:
    from goqueue.spark.runtime.causes import errors_of_spark

    with contextlib.suppress(*errors_of_spark(), AttributeError):  # it is stopped, or gone
        if spark.sparkContext._jsc is not None:
            spark.streams.removeListener(publisher)


def group_name(query_name: str | None, query_id: str) -> str:
    return f"{GROUP_PREFIX}{query_name or query_id}"


def offsets_to_publish(sources: Iterable[tuple[Any, Any]]) -> list[tuple[str, Places]]:
    """What to publish where, from each source's latest and end offsets; others' are left alone."""
    found = []
    for latest_text, end_text in sources:
        latest, end = decode_offsets(latest_text), decode_offsets(end_text)
        broker = broker_of(latest) if latest else None
        if broker is not None and end:
            found.append((broker, places_of(end)))
    return found
