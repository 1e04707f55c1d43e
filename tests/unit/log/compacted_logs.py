"""Logs to compact, and what a reader finds in them."""

from collections.abc import Iterable, Sequence

from goqueue.log import Log, compaction, open_log
from goqueue.log.compaction import Report, Result
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import TopicSettings, topic_settings
from goqueue.runtime import Disk

DIRECTORY = "/log"
START = 1_000_000  # when the first record is written
LATER = Timestamp(START + 1000)  # when logs are compacted
NO_PRODUCER = (-1, -1, -1)


def settings(**overrides: object) -> TopicSettings:
    """A compacted topic with small segments, compacted whenever anything is dirty."""
    chosen = {
        "cleanup_policy": "compact",
        "segment_bytes": 1024,
        "index_interval_bytes": 64,
        "min_cleanable_dirty_ratio": 0.0,
    } | overrides
    return topic_settings({name.replace("_", "."): str(value) for name, value in chosen.items()})


def opened(disk: Disk, chosen: TopicSettings | None = None, directory: str = DIRECTORY) -> Log:
    log, _ = open_log(disk, directory, chosen or settings())
    return log


def record(key: str | None, value: str | None, at: int = START) -> Record:
    return Record(
        0, at, None if key is None else key.encode(), None if value is None else value.encode()
    )


def append(
    log: Log,
    records: Sequence[Record],
    *,
    codec: int = 0,
    attributes: int = 0,
    producer: tuple[int, int, int] = NO_PRODUCER,
) -> Offset:
    """Append one batch, durable and visible; gives its first offset."""
    return append_bytes(
        log, batches.encode(records, codec=codec, attributes=attributes, producer=producer)
    )


def append_bytes(log: Log, data: bytearray) -> Offset:
    headers = batches.verified_headers(data)
    now = Timestamp(START + log.end_offset)
    appended = log.append(data, headers, epoch=Epoch(0), now=now)
    commit(log)
    return appended.first_offset


def commit(log: Log) -> None:
    point = log.sync_point()
    log.run_sync(point)
    log.note_synced(point)
    log.high_watermark = log.end_offset
    log.producers.settle(log.high_watermark)


def fill(log: Log, pairs: Iterable[tuple[str | None, str | None]], *, roll: bool = True) -> None:
    """A batch a pair, a millisecond apart; then everything is sealed."""
    for key, value in pairs:
        append(log, [record(key, value, START + log.end_offset)])
    if roll:
        log.roll()


def compact(
    disk: Disk, log: Log, now: int = LATER, *, force: bool = False, **options: object
) -> Report | None:
    """All steps, as the owner of a log takes them."""
    plan = compaction.plan(log, Timestamp(now), force=force)
    if plan is None:
        return None
    log.rewriting = True
    result = compaction.run(disk, plan, **options)  # type: ignore[arg-type]
    if result is not None:
        replace(log, result)
    log.rewriting = False
    return None if result is None else result.report


def replace(log: Log, result: Result) -> None:
    log.announce_replacement(result.old, result.new, result.report.cleaned_offset)
    replacement = log.replace_segments(result.old, result.new, result.report.cleaned_offset)
    log.run_replacement(replacement)


def chunks(log: Log, start: int | None = None, bytes_max: int = 300) -> Iterable[Buffer]:
    offset = Offset(log.start_offset if start is None else start)
    while offset < log.high_watermark:
        chunk = log.read(offset, bytes_max, log.high_watermark)
        assert chunk.next_offset > offset
        offset = chunk.next_offset
        yield chunk.data


def headers_in(log: Log) -> list[BatchHeader]:
    return [header for chunk in chunks(log) for header in batches.verified_headers(chunk)]


def records_in(log: Log, start: int | None = None, bytes_max: int = 300) -> list[Record]:
    first = log.start_offset if start is None else start
    return [
        found
        for chunk in chunks(log, start, bytes_max)
        for found in batches.decode_all(chunk)
        if found.offset >= first
    ]


def offsets_in(log: Log) -> list[int]:
    return [found.offset for found in records_in(log)]


def table(records: Iterable[Record]) -> dict[bytes, bytes]:
    """What a reader who keeps the last value of each key ends with."""
    values: dict[bytes, bytes] = {}
    for each in records:
        if each.key is None:
            continue
        if each.value is None:
            values.pop(each.key, None)
        else:
            values[each.key] = each.value
    return values
