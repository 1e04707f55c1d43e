"""Inspects and repairs the broker's own logs while the server is stopped.

A log and its snapshots hold the state of a machine.  The server starts if it can replay every
record after the newest sound snapshot.  If a batch of those, or of the snapshot in the log, is
damaged, `repair` replays the sound ones before and after it, writes the state as a snapshot in a
file, and begins a new log at the old one's end, so that no offset is used twice.  The damaged files
are moved to `damaged/`, complete.

    logs/__ledgers/0            -> damaged/{time}/logs/__ledgers/0
    snapshots/__ledgers         -> damaged/{time}/snapshots/__ledgers
    logs/orders/0/ledger        -> damaged/{time}/logs/orders/0/ledger, its snapshots with it

Blocking.
"""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from goqueue.broker.cluster.coordinator_topics import (
    GROUPS_TOPIC,
    SCHEDULES_TOPIC,
    SCHEMAS_TOPIC,
    TRANSACTIONS_TOPIC,
)
from goqueue.broker.groups.coordinator import view_of
from goqueue.broker.internal_topics import LEDGERS_TOPIC, METADATA_TOPIC
from goqueue.broker.producer_ids import PRODUCER_ID_BLOCK
from goqueue.broker.storage import snapshot_file
from goqueue.broker.storage.backups import SNAPSHOTS
from goqueue.broker.storage.bundle import LEDGER
from goqueue.broker.storage.log_snapshot import Piece, Pieces, find_piece
from goqueue.broker.storage.orphans import Orphan
from goqueue.cluster import Metadata, controller
from goqueue.cluster.metadata import ProducerIdsReserved, TopicCreated
from goqueue.groups import GroupMachine
from goqueue.log import DamagedRange, LogReport, inspect_log
from goqueue.log import checkpoint as checkpoints
from goqueue.log.segment import LOG, Sound, stem
from goqueue.model import batch as batches
from goqueue.model.config import Config
from goqueue.model.errors import CorruptData, GoQueueError
from goqueue.model.ids import NO_TIMESTAMP, Offset, Timestamp, TopicName
from goqueue.model.machine import Machine
from goqueue.queue import GroupTable, QueueMachine, QueueRegistry
from goqueue.runtime import Disk
from goqueue.schedules import ScheduleMachine
from goqueue.schemas import RegistryMachine
from goqueue.txn import TransactionMachine

PRODUCER_IDS_SKIPPED: Final = 1_000 * PRODUCER_ID_BLOCK  # none of them may be given out again

# What it means when records of a log are lost.
MEANING: Final = {
    METADATA_TOPIC: (
        "topics created, changed or deleted then; topics that have data come back with default"
        " settings: check their partitions and settings, and those of groups"
    ),
    GROUPS_TOPIC: "offsets committed then: those groups read again from what they had committed",
    TRANSACTIONS_TOPIC: "transactions that began or ended then may be aborted by their time-out",
    SCHEMAS_TOPIC: "schemas that were registered, and levels that were set then",
    SCHEDULES_TOPIC: "schedules that were created or changed then; runs may be published again",
    LEDGERS_TOPIC: "queue groups that began or were deleted then",
}
LEDGER_MEANING: Final = "acks and retries of queues then: those messages are delivered again"

AnyMachine = Machine[Any]
# What a machine may raise when the records that it builds on are not there.
ORPHANED_RECORD: Final = (
    GoQueueError,
    msgspec.MsgspecError,
    LookupError,
    AssertionError,
    AttributeError,
    TypeError,
    ValueError,
)


class SnapshotFile(msgspec.Struct, frozen=True):
    path: str
    offset: Offset
    records: list[bytes] | None  # None when it is damaged
    problem: str = ""


class SnapshotInLog(msgspec.Struct, frozen=True):
    at: Offset
    records: list[bytes]
    is_whole: bool


class Place(msgspec.Struct, frozen=True):
    """Where a machine's log is, in the data directory."""

    name: str
    log: str
    snapshots: str
    meaning: str
    """What it means when records of it are lost."""


def internal_place(topic: str, index: int = 0) -> Place:
    """Of a coordinator there may be several."""
    name = f"{topic}-{index}" if index else topic
    return Place(name, f"logs/{topic}/{index}", f"{SNAPSHOTS}/{name}", MEANING[topic])


def ledger_place(topic: str, index: int) -> Place:
    log = f"logs/{topic}/{index}/{LEDGER}"
    return Place(f"{topic}-{index} ({LEDGER})", log, f"{log}/{SNAPSHOTS}", LEDGER_MEANING)


class Replayed(msgspec.Struct):
    """A machine's log as it was found, and the state that can be had of it."""

    place: Place
    machine: AnyMachine
    make: Callable[[], AnyMachine]
    base: list[bytes]
    """The records of the newest sound snapshot."""
    values: list[tuple[Offset, bytes]]
    """The sound records behind it."""
    report: LogReport
    snapshots: list[SnapshotFile]
    lost: list[DamagedRange]
    """Damage that the server would meet."""
    refused: dict[str, int]
    """Records that could not be applied, since what they build on is lost: how many a kind."""

    @property
    def is_sound(self) -> bool:
        return not self.lost and not self.refused

    @property
    def end_offset(self) -> Offset:
        """No offset below it may be used again."""
        return max((self.report.end_offset, *(each.offset for each in self.snapshots)))

    @property
    def warnings(self) -> list[str]:
        damaged = [
            f"{each.problem}: an older one is used" for each in self.snapshots if each.problem
        ]
        lost = {each.first_offset for each in self.lost}
        covered = [
            f"{each}: a snapshot holds what was there"
            for each in self.report.damage
            if each.first_offset not in lost
        ]
        return [*self.report.warnings, *damaged, *covered]


def replay_all(disk: Disk, config: Config) -> dict[str, Replayed]:
    """Every internal log that is there."""

    def make_metadata() -> Metadata:
        return Metadata(config.topics.settings, config.topics.partitions_max)

    found = {
        METADATA_TOPIC: replay(disk, config.data_dir, internal_place(METADATA_TOPIC), make_metadata)
    }
    metadata = metadata_in(found)
    makers: dict[str, Callable[[], AnyMachine]] = {
        GROUPS_TOPIC: lambda: GroupMachine(config.groups, view_of(metadata.topics.values())),
        TRANSACTIONS_TOPIC: TransactionMachine,
        SCHEMAS_TOPIC: RegistryMachine,
        SCHEDULES_TOPIC: ScheduleMachine,
        LEDGERS_TOPIC: lambda: QueueRegistry(GroupTable()),
    }
    for topic, make in makers.items():
        for index in _stored_indexes(disk, f"{config.data_dir}/logs/{topic}"):
            place = internal_place(topic, index)
            found[place.name] = replay(disk, config.data_dir, place, make)
    return found


def _stored_indexes(disk: Disk, directory: str) -> list[int]:
    """Of the partitions that are there, and the first in any case."""
    names = disk.list_directory(directory) if disk.exists(directory) else []
    return sorted({0, *(int(name) for name in names if name.isdigit())})


def replay_ledger(disk: Disk, data_dir: str, topic: TopicName, index: int) -> Replayed | None:
    """The queue ledger of a partition; None when there is none."""
    place = ledger_place(topic, index)
    if not disk.exists(f"{data_dir}/{place.log}"):
        return None
    return replay(disk, data_dir, place, lambda: QueueMachine(topic, index, GroupTable()))


def replay(disk: Disk, data_dir: str, place: Place, make: Callable[[], AnyMachine]) -> Replayed:
    """The newest sound snapshot, and what is sound of the log behind it."""
    snapshots = _snapshots(disk, f"{data_dir}/{place.snapshots}")
    newest = next((each for each in snapshots if each.records is not None), None)
    first = newest.offset if newest else Offset(0)
    values: list[tuple[Offset, bytes]] = []
    pieces: list[Piece] = []

    def take(found: Sound) -> None:
        if found.header.last_offset < first:
            return
        piece = find_piece(found.data, found.header)
        if piece is not None:
            pieces.append(piece)
            return
        for record in batches.decode(found.data, found.header):
            if record.offset >= first and record.value is not None:
                values.append((Offset(record.offset), record.value))

    report = inspect_log(disk, f"{data_dir}/{place.log}", on_batch=take)
    lost = [each for each in report.damage if each.next_offset > first or each.count <= 0]
    base = newest.records if newest and newest.records else []
    in_log = _snapshot_in_log(pieces) if max(first, report.start_offset) else None
    if in_log is not None and (in_log.is_whole or first < report.start_offset):
        first, base = in_log.at, in_log.records
        values = [(offset, value) for offset, value in values if offset >= first]
        if not in_log.is_whole and not lost:
            lost.append(_missing(report, Offset(0), report.start_offset))
    if report.start_offset > first:
        lost.insert(0, _missing(report, first, report.start_offset))
    if report.end_offset < first:
        lost.append(_missing(report, report.end_offset, first))
    machine = make()
    refused = _apply(machine, [*base, *(value for _, value in values)])
    return Replayed(place, machine, make, base, values, report, snapshots, lost, refused)


def _snapshot_in_log(pieces: list[Piece]) -> SnapshotInLog | None:
    """The one that the server loads; what is sound of the first one if none is whole."""
    if not pieces:
        return None
    looking = Pieces()
    whole = next(filter(None, map(looking.note, pieces)), None)
    at = pieces[0].at if whole is None else whole[0]
    slices = [piece.records for piece in pieces if piece.at == at and not piece.is_end]
    return SnapshotInLog(at, [each for some in slices for each in some], whole is not None)


def metadata_in(found: dict[str, Replayed]) -> Metadata:
    machine = found[METADATA_TOPIC].machine
    assert isinstance(machine, Metadata)
    return machine


def _apply(machine: AnyMachine, values: Iterable[bytes]) -> dict[str, int]:
    """Gives how many records of each kind could not be applied."""
    refused: dict[str, int] = {}
    for value in values:
        kind = "unreadable record"
        try:
            record = machine.decode(value)
            kind = type(record).__name__
            machine.apply(record)
        except ORPHANED_RECORD:
            refused[kind] = refused.get(kind, 0) + 1
    return refused


def _missing(report: LogReport, first: Offset, end: Offset) -> DamagedRange:
    """Between the newest sound snapshot and the log: files are missing."""
    return DamagedRange(report.directory, 0, 0, first, end, NO_TIMESTAMP, NO_TIMESTAMP)


def _snapshots(disk: Disk, directory: str) -> list[SnapshotFile]:
    """Newest first."""
    offsets = snapshot_file.stored_offsets(disk, directory)
    return [_snapshot(disk, snapshot_file.path_of(directory, each), each) for each in offsets]


def _snapshot(disk: Disk, path: str, offset: Offset) -> SnapshotFile:
    try:
        records = [record for block in snapshot_file.read_blocks(disk, path) for record in block]
    except CorruptData as error:
        return SnapshotFile(path, offset, None, str(error))
    return SnapshotFile(path, offset, records)


# --- repairing ------------------------------------------------------------------------------------


def repair(disk: Disk, data_dir: str, found: Replayed, aside: str) -> None:
    """Write the state as a new snapshot; the damaged files are kept below `aside`."""
    end = found.end_offset
    records = _state(found)
    fresh, place = f"{data_dir}/repaired", found.place
    new_log = f"{fresh}/log"
    is_inside = place.snapshots.startswith(f"{place.log}/")
    new_snapshots = f"{new_log if is_inside else fresh}/{SNAPSHOTS}"
    disk.remove_tree(fresh)
    disk.make_directory(new_log)
    disk.make_directory(new_snapshots)
    writer = snapshot_file.SnapshotWriter(disk, snapshot_file.path_of(new_snapshots, end), end)
    writer.add(records)
    writer.finish()
    segment = disk.open(stem(new_log, end) + LOG)
    segment.truncate(0)
    segment.sync()
    segment.close()
    disk.sync_directory(new_log)
    exchanged = [(new_log, place.log)]
    if not is_inside:
        exchanged.insert(0, (new_snapshots, place.snapshots))
    for new, old in exchanged:
        _exchange(disk, new, f"{data_dir}/{old}", f"{aside}/{old}")
    disk.remove_tree(fresh)


def _state(found: Replayed) -> list[bytes]:
    """The machine's records; only those from before the damage, if the others do not fit."""
    with contextlib.suppress(*ORPHANED_RECORD):
        records = [found.machine.encode(record) for record in found.machine.snapshot()]
        if not _apply(found.make(), records):
            return records
    first_lost = min((each.first_offset for each in found.lost), default=Offset(0))
    machine = found.make()
    _apply(machine, [*found.base, *(v for offset, v in found.values if offset < first_lost)])
    return [machine.encode(record) for record in machine.snapshot()]


def _exchange(disk: Disk, new: str, place: str, aside: str) -> None:
    disk.make_directory(_parent(aside))
    disk.make_directory(_parent(place))
    if disk.exists(place):
        disk.rename(place, aside)
        disk.sync_directory(_parent(aside))
    disk.rename(new, place)
    disk.sync_directory(_parent(place))


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def adopt(metadata: Metadata, orphans: Iterable[Orphan], now: Timestamp) -> list[Orphan]:
    """Make topics again of directories that no record accounts for; gives those it could."""
    adopted = []
    for orphan in orphans:
        if orphan.topic_id is None or not orphan.partitions or metadata.has_id(orphan.topic_id):
            continue
        try:
            decision = controller.create_topic(
                metadata,
                TopicName(orphan.topic),
                topic_id=orphan.topic_id,
                partitions=orphan.partitions,
                settings={},
                now=now,
            )
        except GoQueueError:
            continue  # the name is taken; it stays where it is
        for record in decision.records:
            assert isinstance(record, TopicCreated)
            metadata.apply(record)
        adopted.append(orphan)
    return adopted


def skip_producer_ids(disk: Disk, data_dir: str, metadata: Metadata) -> None:
    """An id that was given out after the damage must not be given to another producer."""
    known = metadata.next_producer_id
    for topic in disk.list_directory(f"{data_dir}/logs"):
        names = disk.list_directory(f"{data_dir}/logs/{topic}")
        for partition in filter(str.isdigit, names):
            known = max(known, _next_producer_id(disk, f"{data_dir}/logs/{topic}/{partition}"))
    metadata.apply(ProducerIdsReserved(known + PRODUCER_IDS_SKIPPED))


def _next_producer_id(disk: Disk, directory: str) -> int:
    try:
        saved = checkpoints.load(disk, directory)
    except CorruptData:
        return 0
    producers: list[Any] = saved.producers if saved else []
    return max((each.producer_id + 1 for each in producers), default=0)
