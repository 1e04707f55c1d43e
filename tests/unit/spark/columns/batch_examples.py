"""Batches for tests, and what the plain reader makes of them."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from goqueue.model import batch as batches
from goqueue.model import markers
from goqueue.model.batch import APPEND_TIME, TRANSACTIONAL
from goqueue.model.ids import Timestamp
from goqueue.model.record import Record
from goqueue.spark.columns.layout import COLUMN_TYPES
from tests.unit.model.record_examples import BASE_TIMESTAMP, EVERY_KIND, record_lists

ALL_COLUMNS = tuple(COLUMN_TYPES)
TOPIC, PARTITION = "orders", 3
EVER = 2**63 - 1
_MILLISECONDS_MAX = (2**63 - 1) // 1000


def batch_of(
    records: Sequence[Record],
    base_offset: int = 0,
    *,
    codec: int = 0,
    attributes: int = 0,
    producer_id: int = -1,
) -> bytes:
    return bytes(
        batches.encode(
            records,
            codec=codec,
            attributes=attributes | (TRANSACTIONAL if producer_id >= 0 else 0),
            base_offset=base_offset,
            producer=(producer_id, 0, 0) if producer_id >= 0 else (-1, -1, -1),
        )
    )


def marker_of(producer_id: int, base_offset: int, *, commits: bool) -> bytes:
    marker = markers.Marker(producer_id, 0, coordinator_epoch=0, commits=commits)
    data = markers.encode(marker, Timestamp(BASE_TIMESTAMP))
    batches.stamp(data, batches.header_at(data, 0), base_offset, 0)
    return bytes(data)


def values(*texts: str) -> list[Record]:
    return [Record(0, BASE_TIMESTAMP, None, text.encode()) for text in texts]


def plain_rows(
    raw: bytes, *, start: int = 0, end: int = EVER, columns: Sequence[str] = ALL_COLUMNS
) -> list[dict[str, Any]]:
    """The same rows by way of one Python object a record."""
    rows = []
    position = 0
    while position < len(raw):
        header = batches.verified_header_at(raw, position)
        position = header.end
        if header.is_control:
            continue
        for record in batches.decode(raw, header):
            row = row_of(record, header.uses_append_time)
            if start <= record.offset < end:
                rows.append({name: row[name] for name in columns})
    return rows


def row_of(record: Record, uses_append_time: bool) -> dict[str, Any]:
    bounded = min(max(record.timestamp, -_MILLISECONDS_MAX), _MILLISECONDS_MAX)
    return {
        "key": record.key,
        "value": record.value,
        "topic": TOPIC,
        "partition": PARTITION,
        "offset": record.offset,
        "timestamp": bounded * 1000,
        "timestampType": int(uses_append_time),
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """The rows of Arrow's batch, times as microseconds: Python's own end in the year 9999."""
    columns = {
        name: (column.cast("int64") if name == "timestamp" else column).to_pylist()
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@st.composite
def raw_batches(draw: st.DrawFn, *, batches_max: int = 26) -> bytes:
    """Batches as a fetch gives them: any codec, gaps, the log's time or the producer's.

    Often many alike: the decoder takes other ways with many blocks than with few.
    """
    kinds = draw(
        st.lists(
            st.tuples(
                record_lists(min_size=1),
                st.integers(0, 4),
                st.sampled_from((0, 0, APPEND_TIME)),
                st.integers(0, 3),
            ),
            min_size=1,
            max_size=4,
        )
    )
    offset = draw(st.sampled_from((0, 7, 2**40)))
    raw = b""
    for number in range(draw(st.sampled_from((1, 2, 5, batches_max)))):
        records, codec, attributes, gap = kinds[number % len(kinds)]
        raw += batch_of(records, offset, codec=codec, attributes=attributes)
        offset += len(records) + gap
    return raw


def sample(count: int = 100) -> bytes:
    """Many small batches of every kind of record, uncompressed."""
    size = len(EVERY_KIND)
    return b"".join(batch_of(EVERY_KIND, number * size) for number in range(count))
