"""A log that producers write to, in a simulated disk, and what it should show."""

from goqueue.log import Log, open_log
from goqueue.log.log import Appended
from goqueue.model import batch as batches
from goqueue.model.batch import TRANSACTIONAL
from goqueue.model.ids import Epoch, Offset, Timestamp
from goqueue.model.markers import Marker
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.testing.sim.disk import SimDisk

DIRECTORY = "/log"
NOW = Timestamp(1_700_000_000_000)


def opened(disk: SimDisk, **settings: str) -> Log:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    log, _ = open_log(disk, DIRECTORY, topic_settings(named))
    return log


def batch(
    producer_id: int,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    *,
    transactional: bool = False,
    timestamp: int = NOW,
) -> bytearray:
    records = [Record(0, timestamp, None, b"%d:%d" % (sequence, i)) for i in range(count)]
    return batches.encode(
        records,
        attributes=TRANSACTIONAL if transactional else 0,
        producer=(producer_id, epoch, sequence),
    )


def append(log: Log, data: bytearray, now: Timestamp = NOW) -> Appended:
    return log.append(data, batches.verified_headers(data), epoch=Epoch(0), now=now)


def write(log: Log, producer_id: int, epoch: int = 0, sequence: int = 0, count: int = 1) -> Offset:
    """A transactional batch; gives its first offset."""
    data = batch(producer_id, epoch, sequence, count, transactional=True)
    return append(log, data).first_offset


def mark(log: Log, producer_id: int, epoch: int = 0, *, commits: bool) -> Offset:
    marker = Marker(producer_id, epoch, coordinator_epoch=0, commits=commits)
    return log.append_marker(marker, epoch=Epoch(0), now=NOW)


def show_all(log: Log) -> None:
    """All that is written becomes durable and visible."""
    point = log.sync_point()
    log.run_sync(point)
    log.note_synced(point)
    log.high_watermark = log.end_offset
    log.producers.settle(log.high_watermark)
