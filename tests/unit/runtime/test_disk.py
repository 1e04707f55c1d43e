"""The real disk: bounded handles, errors in the words of the domain, a sync that means it."""

import contextlib
import errno
import gc
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from goqueue.model.errors import DiskFull, OutOfHandles, StorageFailed
from goqueue.runtime import RealDisk
from goqueue.runtime.handles import SpareHandles


@pytest.fixture
def disk() -> Iterator[RealDisk]:
    disk = RealDisk(open_files_max=8)
    yield disk
    disk.close()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Handles that were synced, in order."""
    seen: list[int] = []
    real = os.fdatasync

    def fdatasync(handle: int) -> None:
        seen.append(handle)
        real(handle)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    return seen


def failing(number: int) -> Callable[..., int]:
    def call(*_arguments: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


def handles_of(directory: Path) -> int:
    """How many files below `directory` this process really has open."""
    found = 0
    for handle in os.listdir("/dev/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{handle}").startswith(f"{directory}/")
        except FileNotFoundError:
            continue  # the one that lists them
    return found


# --- handles -----------------------------------------------------------------------------------


def test_open_handles_are_bounded_and_files_reopen_themselves(disk: RealDisk, tmp_path: Path):
    files = [disk.open(f"{tmp_path}/{number}") for number in range(50)]
    for number, file in enumerate(files):
        file.append(b"%d" % number)
        file.sync()
    assert handles_of(tmp_path) <= 8
    assert [file.read(0, 10) for file in files] == [b"%d" % number for number in range(50)]
    assert disk.open_files <= 8
    assert handles_of(tmp_path) <= 8


def test_the_bound_holds_for_files_that_were_never_synced(
    disk: RealDisk, tmp_path: Path, synced: list[int]
):
    """They are synced before they are closed: a failed write must not be forgotten with them."""
    files = [disk.open(f"{tmp_path}/{number}") for number in range(50)]
    for file in files:
        file.append(b"x")
    assert handles_of(tmp_path) <= 8
    assert len(synced) >= 42
    for file in files:
        file.append(b"y")
        file.sync()
    assert all(file.read(0, 10) == b"xy" for file in files)


def test_a_sync_that_fails_when_a_handle_is_given_back_is_told_to_who_syncs(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    first = disk.open(f"{tmp_path}/first")
    first.append(b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", failing(errno.EIO))
        for number in range(20):
            disk.open(f"{tmp_path}/{number}").append(b"x")
    with pytest.raises(StorageFailed, match="Input/output"):
        first.sync()


def test_asking_for_a_size_takes_no_handle(disk: RealDisk, tmp_path: Path):
    (tmp_path / "a").write_bytes(b"12345")
    assert disk.open(f"{tmp_path}/a").size == 5
    assert disk.open(f"{tmp_path}/missing").size == 0
    assert disk.open_files == 0


def test_too_few_handles_for_the_bound_are_enough(tmp_path: Path):
    """The process may be allowed fewer than `open_files_max`."""
    disk = RealDisk(open_files_max=1_000_000)
    used = len(os.listdir("/dev/fd"))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 16, hard))
    try:
        files = [disk.open(f"{tmp_path}/{number}") for number in range(60)]
        for number, file in enumerate(files):
            file.append(b"%d" % number)
        assert [file.read(0, 10) for file in files] == [b"%d" % number for number in range(60)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        disk.close()


# --- sync --------------------------------------------------------------------------------------


def test_a_write_during_a_sync_is_synced_by_the_next_one(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: list[int]
):
    file = disk.open(f"{tmp_path}/a")
    file.append(b"1")
    real = os.pwrite

    def pwrite(handle: int, data: bytes, position: int) -> int:
        file.sync()  # as another thread would, just before the bytes are written
        return real(handle, data, position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        file.append(b"2")
    synced.clear()
    file.sync()
    assert len(synced) == 1


def test_a_file_is_synced_once_though_this_process_wrote_nothing(
    disk: RealDisk, tmp_path: Path, synced: list[int]
):
    """A process that was killed may have left bytes in memory."""
    (tmp_path / "a").write_bytes(b"left by another process")
    file = disk.open(f"{tmp_path}/a")
    file.sync()
    file.sync()
    assert len(synced) == 1


def test_after_a_failed_sync_nothing_is_believed(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = disk.open(f"{tmp_path}/a")
    file.append(b"1")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", failing(errno.EIO))
        with pytest.raises(StorageFailed):
            file.sync()
    with pytest.raises(StorageFailed):
        file.sync()
    with pytest.raises(StorageFailed):
        file.append(b"2")
    assert file.read(0, 10) == b"1"


# --- a full disk -------------------------------------------------------------------------------


def test_a_full_disk_changes_nothing_and_is_left_behind(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = disk.open(f"{tmp_path}/a")
    file.append(b"before")
    real = os.pwrite
    written: list[int] = []

    def pwrite(handle: int, data: bytes, position: int) -> int:
        """Takes three bytes, then has no room."""
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(real(handle, bytes(data[:3]), position))
        return 3

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(DiskFull, match="free some disk space"):
            file.append(b"too long")
    assert (tmp_path / "a").read_bytes() == b"before"
    assert file.append(b", after") == 6
    assert (tmp_path / "a").read_bytes() == b"before, after"


def test_a_file_that_could_not_be_replaced_leaves_the_old_one_and_no_other(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk.replace_file(f"{tmp_path}/a", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing(errno.ENOSPC))
        with pytest.raises(DiskFull):
            disk.replace_file(f"{tmp_path}/a", b"new")
    assert disk.read_file(f"{tmp_path}/a") == b"old"
    assert disk.list_directory(str(tmp_path)) == ["a"]


def test_reading_errors_are_told_in_the_words_of_the_domain(disk: RealDisk, tmp_path: Path):
    (tmp_path / "directory").mkdir()
    with pytest.raises(StorageFailed):
        disk.read_file(f"{tmp_path}/directory")
    with pytest.raises(StorageFailed):
        _ = disk.open(f"{tmp_path}/directory").size


# --- no handle left -----------------------------------------------------------------------------


@pytest.fixture
def take_all_handles() -> Iterator[Callable[[], None]]:
    """As a storm of connections does; called again, it takes what became free.

    What the tests before this one left open counts against the limit, too.
    """
    taken: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each) for each in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, highest + 50), hard))

    def take() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))

    yield take
    for handle in taken:
        os.close(handle)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_disk_finishes_its_work_when_connections_took_all_handles(
    disk: RealDisk, tmp_path: Path, take_all_handles: Callable[[], None]
):
    take_all_handles()
    disk.replace_file(f"{tmp_path}/small", b"one")
    disk.sync_directory(str(tmp_path))
    disk.make_directory(f"{tmp_path}/a/b")
    assert disk.read_file(f"{tmp_path}/small") == b"one"
    assert disk.list_directory(str(tmp_path)) == ["a", "small"]
    file = disk.open(f"{tmp_path}/grows")
    file.append(b"some")
    file.sync()
    assert file.read(0, 10) == b"some"


def test_without_any_handle_the_answer_is_to_try_again(
    disk: RealDisk, tmp_path: Path, take_all_handles: Callable[[], None]
):
    disk.replace_file(f"{tmp_path}/small", b"one")
    file = disk.open(f"{tmp_path}/grows")
    for _ in range(20):  # each time the disk gives up one that it kept
        take_all_handles()
        try:
            disk.read_file(f"{tmp_path}/small")
        except OutOfHandles:
            break
    for work in (
        lambda: disk.replace_file(f"{tmp_path}/small", b"two"),
        lambda: disk.sync_directory(str(tmp_path)),
        lambda: disk.list_directory(str(tmp_path)),
        lambda: file.append(b"some"),
    ):
        take_all_handles()
        with pytest.raises(OutOfHandles, match=r"kafka\.connections_max"):
            work()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # others hold handles, too
    assert disk.read_file(f"{tmp_path}/small") == b"one"
    file.append(b"some")
    file.sync()


def test_handles_that_were_kept_back_go_with_a_disk_that_nobody_closed():
    kept = SpareHandles(3)
    handles = list(kept._handles)
    assert len(handles) == 3
    del kept
    gc.collect()
    for each in handles:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(each)
