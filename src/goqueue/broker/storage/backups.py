"""A consistent copy of a running broker's data, made beside it: what a backup is taken from.

All logs are cut at one and the same moment, between two steps of the event loop, which is where
everything is appended.  So the copy is what a kill at that moment would have left on disk, and the
start that opens it is the one that is proven for kills: an offset that `__groups` or an ack that
a ledger knows lies inside its log; a transaction is decided in `__transactions`, or times out.

    hold       no file is removed or replaced until the end (see `file_hold`)
    checkpoint each log, so that what was sealed before never changes again
    the moment sizes of all files of all logs, in one step
    link       sealed segments get a second name, which costs nothing
    copy       what still grows, up to its size at the moment; synced

The copy lies in `backups/{id}` of the data directory, on the same file system: links work, and the
server writes nowhere else.  `goqueue backup` takes it from there, verifies it and has it removed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.orphans import TOPIC_FILE
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Topic
from goqueue.log import checkpoint as checkpoints
from goqueue.log import epochs as epoch_file
from goqueue.log.checkpoint import Checkpoint
from goqueue.log.epochs import EpochStart
from goqueue.model.errors import (
    DiskFull,
    GoQueueError,
    InvalidRequest,
    NotLeader,
    PolicyViolation,
    ShuttingDown,
)
from goqueue.model.ids import Offset
from goqueue.model.names import is_internal
from goqueue.runtime import Clock, Disk, Environment

COPY_BYTES: Final = 1024 * 1024
BACKUPS: Final = "backups"
SNAPSHOTS: Final = "snapshots"

_log = structlog.get_logger("goqueue.backups")


class Copied(msgspec.Struct, frozen=True):
    """A copy that lies ready."""

    backup_id: str
    path: str
    topics: int
    partitions: int
    log_bytes: int
    seconds: float


class FileAt(msgspec.Struct, frozen=True):
    name: str
    size: int  # at the moment
    is_final: bool  # it will not change: a link will do


class LogAt(msgspec.Struct, frozen=True):
    """A log as it was at the moment."""

    topic: str
    index: int
    kind: str  # of a log beside the partition's data
    directory: str
    end_offset: Offset
    files: list[FileAt]
    checkpoint: Checkpoint
    epochs: list[EpochStart]


class Backups:
    def __init__(
        self,
        environment: Environment,
        data_dir: str,
        partitions: Partitions,
        topics: Callable[[], Sequence[Topic]],
        hosts: Callable[[], Sequence[MachineHost[Any]]],
        free_bytes_min: Callable[[], int],
        *,
        has_metadata: bool = True,
    ) -> None:
        """Without metadata of its own a data directory is no backup of anything."""
        self._has_metadata = has_metadata
        self._disk: Disk = environment.disk
        self._clock: Clock = environment.clock
        self._data_dir = data_dir
        self._directory = f"{data_dir}/{BACKUPS}"
        self._partitions = partitions
        self._topics = topics
        self._hosts = hosts
        self._free_bytes_min = free_bytes_min
        self._stopping = False
        self._given_up = False
        self._one_at_a_time = asyncio.Lock()

    async def take(self) -> Copied:
        """Make a copy of everything that was written before the call, and some more."""
        if not self._has_metadata:
            raise PolicyViolation(
                "the metadata is in etcd, and a backup without it would be of no use: stop the"
                " server, copy the data directory, and save etcd (`etcdctl snapshot save`)"
            )
        async with self._one_at_a_time:
            started = self._clock.instant()
            backup_id = f"{self._clock.now():013d}"
            path = f"{self._directory}/{backup_id}"
            try:
                logs = await self._copy(path)
            except BaseException:
                await self._remove(path)
                raise
            copied = Copied(
                backup_id,
                path,
                topics=len({each.topic for each in logs if not is_internal(each.topic)}),
                partitions=sum(not each.kind for each in logs),
                log_bytes=sum(f.size for each in logs for f in each.files if _is_log(f.name)),
                seconds=(self._clock.instant() - started) / 1e9,
            )
            _log.info("backup copied", path=path, bytes=copied.log_bytes, seconds=copied.seconds)
            return copied

    async def _copy(self, path: str) -> list[LogAt]:
        async with self._partitions.files.hold():
            await self._open_all()
            for partition in self._partitions.logs():
                if partition.log.needs_checkpoint and partition.log.failed is None:
                    await _wait_checkpoint(partition)
            logs = self._moment()
            self._given_up = False
            work = self._disk.in_background(lambda: self._write(path, logs))
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:  # whoever asked has gone; the thread uses the files
                self._given_up = True
                await asyncio.gather(work, return_exceptions=True)
                raise
        return logs

    def stop(self) -> None:
        """Let a copy that is being made end early; nothing of it stays."""
        self._stopping = True

    def _write(self, path: str, logs: list[LogAt]) -> None:
        """Blocking."""
        copied = sum(file.size for each in logs for file in each.files if not file.is_final)
        free, wanted = self._disk.free_bytes(self._data_dir), self._free_bytes_min()
        if free - copied < wanted:
            raise DiskFull(
                f"a backup copies {copied} bytes of growing files, {free} are free below"
                f" {self._data_dir}, and {wanted} stay free (setting storage.free_bytes_min)"
            )
        for each in logs:
            if self._stopping or self._given_up:
                raise ShuttingDown("the backup was ended: the server stops, or the client has gone")
            _write_log(self._disk, self._data_dir, path, each)

    async def _open_all(self) -> None:
        """Those with data: only what is open can be cut at one moment."""
        for topic in self._topics():
            directory = f"{self._data_dir}/logs/{topic.name}"
            names = await self._disk.in_background(partial(self._disk.list_directory, directory))
            for index in sorted(int(name) for name in names if name.isdigit()):
                if topic.has_partition(index):
                    with contextlib.suppress(NotLeader):  # of a replica that was here once
                        await self._partitions.get(topic, index)

    def _moment(self) -> list[LogAt]:
        """No await in here."""
        for host in self._hosts():
            if host.failed is None:
                host.write_deferred()
        return [_log_at(each) for each in self._partitions.logs() if not each.log.abandoned]

    async def remove(self, backup_id: str) -> None:
        if not (backup_id.isascii() and backup_id.isdigit()):
            raise InvalidRequest(f"{backup_id!r} is no backup's id")
        await self._remove(f"{self._directory}/{backup_id}")

    async def remove_all(self) -> None:
        """Those that an earlier process left."""
        if self._disk.exists(self._directory):
            await self._remove(self._directory)

    async def _remove(self, path: str) -> None:
        await self._disk.in_background(lambda: self._disk.remove_tree(path))


async def _wait_checkpoint(partition: Partition) -> None:
    try:
        await partition.checkpoint()
    except GoQueueError as error:
        # It is copied all the same: what is not settled is copied and not linked.
        _log.warning("backup: no checkpoint", partition=str(partition), problem=str(error))


def _log_at(partition: Partition) -> LogAt:
    log = partition.log
    files = [
        FileAt(_name(file.path), file.size, log.is_settled(segment))
        for segment in log.segments
        for file in (segment.log, segment.offsets.file, segment.times.file)
    ]
    files.append(FileAt(_name(log.aborted.file.path), log.aborted.file.size, False))
    return LogAt(
        partition.topic,
        partition.index,
        partition.kind,
        log.directory,
        log.end_offset,
        files,
        log.checkpoint_now(),
        list(log.epochs.entries),
    )


def _write_log(disk: Disk, data_dir: str, path: str, log: LogAt) -> None:
    """Blocking."""
    target = path + log.directory.removeprefix(data_dir)
    disk.make_directory(target)
    for file in log.files:
        _link_or_copy(disk, f"{log.directory}/{file.name}", f"{target}/{file.name}", file)
    if log.epochs:
        epoch_file.store(disk, target, log.epochs)
    checkpoints.store(disk, target, log.checkpoint)
    if log.kind:
        _copy_snapshots(disk, f"{log.directory}/{SNAPSHOTS}", f"{target}/{SNAPSHOTS}", log)
    elif is_internal(log.topic):
        snapshots = f"{SNAPSHOTS}/{log.topic}"
        _copy_snapshots(disk, f"{data_dir}/{snapshots}", f"{path}/{snapshots}", log)
    if not log.kind:
        _copy_owner(disk, f"{data_dir}/logs/{log.topic}", f"{path}/logs/{log.topic}")


def _link_or_copy(disk: Disk, source: str, target: str, file: FileAt) -> None:
    if not disk.exists(source):
        return  # an index or abort index that nothing was written to
    if not (file.is_final and disk.link(source, target)):
        copy_file(disk, source, target, file.size)


def copy_file(disk: Disk, source: str, target: str, size: int) -> None:
    """The first `size` bytes, synced.  Blocking."""
    reader, writer = disk.open(source), disk.open(target)
    writer.truncate(0)
    position = 0
    while position < size:
        block = reader.read(position, min(COPY_BYTES, size - position))
        if not block:
            break
        writer.append(block)
        position += len(block)
    writer.sync()
    writer.close()
    reader.close()


def _copy_owner(disk: Disk, source: str, target: str) -> None:
    owner = disk.read_file(f"{source}/{TOPIC_FILE}")
    if owner is not None and not disk.exists(f"{target}/{TOPIC_FILE}"):
        disk.replace_file(f"{target}/{TOPIC_FILE}", owner)


def _copy_snapshots(disk: Disk, source: str, target: str, log: LogAt) -> None:
    """Those of states before the moment; the oldest may be removed meanwhile."""
    for name in disk.list_directory(source):
        number = name.removesuffix(".snapshot")
        if not name.endswith(".snapshot") or not number.isdigit() or int(number) > log.end_offset:
            continue
        content = disk.read_file(f"{source}/{name}")
        if content is not None:
            disk.make_directory(target)
            disk.replace_file(f"{target}/{name}", content)


def _is_log(name: str) -> bool:
    return name.endswith(".log")


def _name(path: str) -> str:
    return path.rpartition("/")[2]
