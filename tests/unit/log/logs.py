"""Logs to try things on, beside a plain list of what should be in them."""

import random
from collections.abc import Iterable, Iterator

from msgspec import structs

from goqueue.log import Log, Recovery, open_log
from goqueue.log.segment import Segment, Sound
from goqueue.model import batch as batches
from goqueue.model.batch import BatchHeader
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import TopicSettings, topic_settings
from goqueue.runtime import Disk

DIRECTORY = "/log"
NOW = Timestamp(1_750_000_000_000)
ALL = 1 << 30  # bytes: as many as there are


def settings(**overrides: object) -> TopicSettings:
    """Small segments with many index entries, unless told otherwise."""
    chosen = {"segment_bytes": 1024, "index_interval_bytes": 128} | overrides
    return topic_settings({name.replace("_", "."): str(value) for name, value in chosen.items()})


class Book:
    """A log, and every record that was appended to it, in a list."""

    def __init__(
        self, disk: Disk, chosen: TopicSettings | None = None, directory: str = DIRECTORY
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.settings = chosen or settings()
        self.records: list[Record] = []  # with their offsets
        self.batches: list[tuple[Offset, Offset]] = []  # first and last offset of each
        self.checkpointed = Offset(0)  # for those who want to remember
        self.log, self.recovery = self._opened()

    def _opened(self) -> tuple[Log, Recovery]:
        return open_log(self.disk, self.directory, self.settings)

    def reopen(self, disk: Disk | None = None, chosen: TopicSettings | None = None) -> None:
        self.disk = disk or self.disk
        self.settings = chosen or self.settings
        self.log, self.recovery = self._opened()

    def append(
        self,
        records: Iterable[Record],
        *,
        codec: int = 0,
        epoch: int = 0,
        now: int = NOW,
        sync: bool = True,
    ) -> Offset:
        """Append one batch; gives its first offset."""
        written = list(records)
        data = batches.encode(written, codec=codec)
        appended = self.log.append(
            data, batches.verified_headers(data), epoch=Epoch(epoch), now=Timestamp(now)
        )
        first = appended.first_offset
        stamp = appended.append_time
        self.batches.append((first, appended.last_offset))
        self.records += [
            Record(first + index, stamp if stamp >= 0 else r.timestamp, r.key, r.value, r.headers)
            for index, r in enumerate(written)
        ]
        if sync:
            self.sync()
        return first

    def fill(self, count: int, *, each: int = 1, size: int = 40, step_ms: int = 1) -> None:
        """`count` batches of `each` records with growing timestamps."""
        for _ in range(count):
            self.append(
                Record(0, self._next_time(index, step_ms), None, bytes(size))
                for index in range(each)
            )

    def _next_time(self, index: int, step_ms: int) -> int:
        return NOW + (len(self.records) + index) * step_ms

    def sync(self) -> None:
        point = self.log.sync_point()
        self.log.run_sync(point)
        self.log.note_synced(point)
        self.log.high_watermark = self.log.synced_offset

    def checkpoint(self) -> None:
        point = self.log.checkpoint_point()
        self.log.run_checkpoint(point)
        self.log.note_synced(point.sync)
        self.log.high_watermark = self.log.synced_offset

    def close(self) -> None:
        self.checkpoint()
        self.log.close()

    def remove_before(self, offset: int) -> None:
        removal = self.log.remove_before(Offset(offset))
        self.log.run_removal(removal)
        self.log.note_synced(removal.checkpoint.sync)

    def batch_of(self, offset: int) -> tuple[Offset, Offset]:
        return next(batch for batch in self.batches if batch[0] <= offset <= batch[1])

    def check(self, *, indexes: bool = True) -> None:
        """Everything appended can be read, from every offset, and nothing else."""
        log = self.log
        expected = [record for record in self.records if record.offset >= log.start_offset]
        assert log.end_offset == len(self.records)
        assert list(read_all(log)) == expected
        for offset in range(log.start_offset, log.end_offset):
            first = next(batches.decode_all(log.read(Offset(offset), 1, log.end_offset).data))
            assert first.offset == self.batch_of(offset)[0]
        if indexes:
            check_indexes(log)


def read_all(log: Log, bytes_max: int = ALL) -> Iterator[Record]:
    offset, start = log.start_offset, log.start_offset
    while offset < log.high_watermark:
        chunk = log.read(offset, bytes_max, log.high_watermark)
        assert chunk.next_offset > offset, "a read must get on"
        for record in batches.decode_all(chunk.data):
            if record.offset >= start:
                yield record
        offset = chunk.next_offset


def headers_in(segment: Segment) -> list[BatchHeader]:
    """With their positions in the file; the segment must be sound."""
    headers = []
    for found in segment.survey(0, segment.base_offset, None):
        assert isinstance(found, Sound), found
        headers.append(structs.replace(found.header, position=found.position))
    return headers


def check_indexes(log: Log) -> None:
    """Entries point to where batches start, and the time index tells the truth."""
    for segment in log.segments:
        headers = headers_in(segment)
        starts = {header.base_offset: header.position for header in headers}
        for index in range(segment.offsets.count):
            key, position = segment.offsets.entry(index)
            assert starts[Offset(segment.base_offset + key)] == position
        entries = [segment.times.entry(index) for index in range(segment.times.count)]
        assert entries == sorted(entries, key=lambda entry: entry[0])
        for timestamp, key in entries:
            # A batch that compaction emptied keeps its time, and no record has it.
            end = segment.base_offset + key
            before = [each for each in headers if each.count and each.base_offset <= end]
            assert all(header.max_timestamp <= timestamp for header in before)
        newest = max((header.max_timestamp for header in headers if header.count), default=-1)
        assert segment.newest() == newest


def some_records(chance: random.Random, count: int, *, spread_ms: int = 1000) -> list[Record]:
    return [
        Record(
            0,
            NOW + chance.randrange(-spread_ms, spread_ms + 1),
            chance.choice((None, b"key", b"another key")),
            chance.choice((None, b"", chance.randbytes(chance.randrange(200)))),
        )
        for _ in range(count)
    ]
