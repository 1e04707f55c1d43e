"""Backups as files: made from a data directory that does not change, verified, and restored.

    DIR/backup.json      every file with its size and SHA-256, every log with its offsets
    DIR/data/…           a data directory

A backup is written to `DIR.partial` and renamed when every batch's checksum was verified and every
record of the server's own logs decoded: a directory without that ending is whole.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from goqueue._version import __version__
from goqueue.broker.doctor.examination import Examination, examine
from goqueue.broker.storage.bundle import BESIDE, LEDGER
from goqueue.cli.failures import ExitCode, Failure
from goqueue.log import LogReport
from goqueue.log import checkpoint as checkpoints
from goqueue.model.config import Config
from goqueue.model.errors import CorruptData
from goqueue.model.ids import Timestamp
from goqueue.runtime import Disk, real_environment

FORMAT: Final = 1
MANIFEST: Final = "backup.json"
DATA: Final = "data"
KEPT: Final = ("logs", "snapshots", "orphaned")  # of a data directory
COPY_BYTES: Final = 1024 * 1024

OnBytes = Callable[[int], None]


class BackedUpFile(msgspec.Struct, frozen=True):
    path: str
    bytes: int
    sha256: str


class BackedUpLog(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    batches: int
    records: int
    bytes: int
    is_ledger: bool = False  # the queue ledger of the partition
    kind: str = ""  # of a log beside the partition's data: `ledger`, `delays` or `timers`


class Manifest(msgspec.Struct, frozen=True):
    format: int
    goqueue: str
    """Version of the program that made it."""
    created_at: str
    cluster_id: str
    topics: int
    partitions: int
    batches: int
    records: int
    bytes: int
    damage: list[str]
    logs: list[BackedUpLog]
    files: list[BackedUpFile]


def back_up(
    source: Path,
    target: Path,
    *,
    may_link: Callable[[Path], bool],
    allow_damage: bool,
    on_bytes: OnBytes,
) -> Manifest:
    """Copy or link what is in `source` to `target`, and verify it there."""
    refuse_if_used(target)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    files = []
    for path in _files(source):
        file = partial / DATA / path.relative_to(source)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not (may_link(path) and _link(path, file)):
            _copy(path, file)
        files.append(_describe(file, partial, on_bytes))
    examined = _examine(partial / DATA, on_bytes)
    manifest = _manifest(examined, files)
    if manifest.damage and not allow_damage:
        shutil.rmtree(partial)
        raise Failure(
            "the data is damaged, nothing was backed up (--allow-damage does it all the same):\n"
            + "\n".join(manifest.damage)
        )
    _write(partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1))
    _finish(partial, target)
    return manifest


def restore(source: Path, target: Path, *, on_bytes: OnBytes) -> Manifest:
    """Make a data directory of a backup, and verify it."""
    manifest = read_manifest(source)
    refuse_if_used(target)
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    _refuse_changed(source, manifest)
    partial.mkdir(parents=True)
    for each in manifest.files:
        file = partial / Path(each.path).relative_to(DATA)
        file.parent.mkdir(parents=True, exist_ok=True)
        _copy(source / each.path, file)
        found = _describe(file, partial, on_bytes)
        if found.sha256 != each.sha256:
            shutil.rmtree(partial)
            raise Failure(f"{source / each.path} is damaged: its SHA-256 is {found.sha256}")
    examined = _examine(partial, on_bytes)
    if damage := _damage(examined):
        if not manifest.damage:
            shutil.rmtree(partial)
            raise Failure("what was restored is damaged:\n" + "\n".join(damage))
    elif examined.records != manifest.records:
        shutil.rmtree(partial)
        raise Failure(f"{examined.records} records were restored of {manifest.records}")
    _finish(partial, target)
    return manifest


def read_manifest(source: Path) -> Manifest:
    file = source / MANIFEST
    try:
        manifest = msgspec.json.decode(file.read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise Failure(f"{source} is no backup: there is no {file}", ExitCode.NOT_FOUND) from None
    except msgspec.MsgspecError as error:
        raise Failure(f"{file}: {error}") from error
    if manifest.format != FORMAT:
        raise Failure(f"{file}: format {manifest.format}, this release reads {FORMAT}")
    return manifest


def refuse_if_used(target: Path) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Failure(f"{target} is not empty: choose another directory", ExitCode.CONFLICT)


def may_link_stopped(data_dir: Path) -> Callable[[Path], bool]:
    """Of a stopped server: segments that its next start will leave as they are."""
    disk = real_environment().disk
    settled: dict[Path, int] = {}  # by a log's directory: segments before this offset are final

    def may_link(path: Path) -> bool:
        if not path.stem.isdigit() or path.suffix not in (".log", ".index", ".timeindex"):
            return False
        directory = path.parent
        if directory not in settled:
            settled[directory] = _checkpointed_segment(disk, directory)
        return int(path.stem) < settled[directory]

    return may_link


def _checkpointed_segment(disk: Disk, directory: Path) -> int:
    try:
        saved = checkpoints.load(disk, str(directory))
    except CorruptData:
        return 0
    return saved.segment if saved else 0


# --- files ----------------------------------------------------------------------------------------


def _files(source: Path) -> Iterator[Path]:
    for name in KEPT:
        yield from sorted(path for path in (source / name).rglob("*") if path.is_file())


def log_bytes(source: Path) -> int:
    return sum(path.stat().st_size for path in _files(source))


def _link(path: Path, file: Path) -> bool:
    try:
        os.link(path, file)
    except OSError:  # another file system, or somebody else's file
        return False
    return True


def _copy(path: Path, file: Path) -> None:
    with path.open("rb") as reader, file.open("wb") as writer:
        shutil.copyfileobj(reader, writer, COPY_BYTES)
        writer.flush()
        os.fsync(writer.fileno())
    shutil.copymode(path, file)


def _write(file: Path, content: bytes) -> None:
    with file.open("wb") as writer:
        writer.write(content + b"\n")
        writer.flush()
        os.fsync(writer.fileno())


def _describe(file: Path, base: Path, on_bytes: OnBytes) -> BackedUpFile:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as reader:
        while block := reader.read(COPY_BYTES):
            digest.update(block)
            size += len(block)
            on_bytes(len(block))
    return BackedUpFile(file.relative_to(base).as_posix(), size, digest.hexdigest())


def _refuse_changed(source: Path, manifest: Manifest) -> None:
    """What can be seen without reading everything, before anything is written."""
    for each in manifest.files:
        if not each.path.startswith(f"{DATA}/") or ".." in Path(each.path).parts:
            raise Failure(f"{source / MANIFEST}: {each.path!r} is no file of a backup")
        file = source / each.path
        size = file.stat().st_size if file.is_file() else None
        if size != each.bytes:
            has = "is missing" if size is None else f"has {size} bytes"
            raise Failure(f"{file} {has}, the backup was made with {each.bytes}")


def _finish(partial: Path, target: Path) -> None:
    for directory in (partial, *(path for path in partial.rglob("*") if path.is_dir())):
        _sync_directory(directory)
    partial.rename(target)
    _sync_directory(target.parent)


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- verifying ------------------------------------------------------------------------------------


def _examine(data_dir: Path, on_bytes: OnBytes) -> Examination:
    disk = real_environment().disk
    try:
        now = Timestamp(time.time_ns() // 1_000_000)
        return examine(disk, Config(data_dir=str(data_dir)), now, on_bytes=on_bytes)
    finally:
        disk.close()


def _damage(examined: Examination) -> list[str]:
    return [
        f"{each.subject}: {each.text}" for each in examined.findings if each.status == "problem"
    ]


def _log(report: LogReport) -> BackedUpLog:
    directory = Path(report.directory)
    kind = directory.name if directory.name in BESIDE else ""
    partition = directory.parent if kind else directory
    return BackedUpLog(
        topic=partition.parent.name,
        partition=int(partition.name),
        start_offset=report.start_offset,
        end_offset=report.end_offset,
        batches=report.batches,
        records=report.records,
        bytes=report.bytes,
        is_ledger=kind == LEDGER,
        kind=kind,
    )


def _manifest(examined: Examination, files: list[BackedUpFile]) -> Manifest:
    logs = [_log(each) for each in examined.logs]
    return Manifest(
        format=FORMAT,
        goqueue=__version__,
        created_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        cluster_id=examined.cluster_id,
        topics=examined.topics,
        partitions=examined.partitions,
        batches=examined.batches,
        records=examined.records,
        bytes=sum(each.bytes for each in files),
        damage=_damage(examined),
        logs=logs,
        files=files,
    )
