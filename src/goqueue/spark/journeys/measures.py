"""What events of one partition say of its messages: how long each took from step to step."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from goqueue.spark.journeys.events import arrow_schema
from goqueue.trace.events import NAMES, Place, Space, Step, TraceEvent
from goqueue.trace.histograms import Histogram, HistogramTable
from goqueue.trace.latencies import Latencies

if TYPE_CHECKING:
    import pyarrow as pa

RUNS_MAX: Final = 10_000_000  # batches of a partition: all of them
SCHEMA: Final = (
    "step string, topic string, `group` string, partition int, offset bigint, messages bigint,"
    " took_ms double, at_us bigint"
)
STEPS: Final = {name: step for step, name in NAMES.items()}

Observation = dict[str, object]


class _Rows(HistogramTable):
    """Instead of histograms: each observation as a row."""

    def __init__(self, step: str, found: list[Observation]) -> None:
        super().__init__((), 0)
        self._step = step
        self._found = found

    def of(self, key: tuple[str, ...]) -> Histogram:
        return _Row(self._step, key, self._found)


class _Row(Histogram):
    def __init__(self, step: str, key: tuple[str, ...], found: list[Observation]) -> None:
        self._step = step
        self._key = key
        self._found = found

    def observe(self, took_us: int, count: int, at_us: int, place: Place, trace_id: str) -> None:
        topic, group = (*self._key, "")[:2]
        self._found.append(
            {
                "step": self._step,
                "topic": topic,
                "group": group,
                "partition": place.partition,
                "offset": place.offset,
                "messages": count,
                "took_ms": max(0, took_us) / 1000,
                "at_us": at_us,
            }
        )


def observe(events: Iterable[Mapping[str, Any]]) -> list[Observation]:
    """Of one partition, in any order; the steps are those of the broker's metrics."""
    found = list[Observation]()
    latencies = Latencies(RUNS_MAX)
    latencies.publish = _Rows("publish", found)
    latencies.first_delivery = _Rows("first_delivery", found)
    latencies.ack = _Rows("ack", found)
    latencies.end_to_end = _Rows("end_to_end", found)
    for row in sorted(events, key=_order):
        latencies.note(_event(row))
    return found


def _order(row: Mapping[str, Any]) -> tuple[int, bool]:
    """A publish counts from when it was persisted: nobody has fetched it before."""
    took = max(0, row["duration_us"]) if row["event"] == NAMES[Step.PUBLISHED] else 0
    return row["time_us"] + took, not row["event"].startswith("publish")


def _event(row: Mapping[str, Any]) -> TraceEvent:
    event = TraceEvent(row["time_us"], STEPS[row["event"]], row["topic"], row["topic"].encode())
    event.partition, event.first, event.last = row["partition"], row["first"], row["last"]
    event.space = Space[row["space"].upper()]
    event.group, event.member = row["group"], row["member"]
    event.client, event.address = row["client"], row["address"]
    event.duration_us, event.attempt = row["duration_us"], row["attempt"]
    event.detail = row["detail"]
    return event


def observe_table(table: "pa.Table") -> "pa.Table":
    """The same for Spark: a partition's events in, its observations out."""
    import pyarrow as pa

    return pa.Table.from_pylist(observe(table.to_pylist()), schema=arrow_schema(SCHEMA))
