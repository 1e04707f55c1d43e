"""Where the files of a table are: a folder, or a prefix in an object store.

    lake/orders                     a folder that the driver and all tasks share
    s3://bucket/lake/orders         Amazon S3, or any server that speaks its protocol
    gs://…  abfss://…               Google's and Azure's

PyArrow's filesystems read and write the files.  Credentials are found by the usual chain of each
store, wherever a file is opened: none are sent to tasks.  Of S3 that is the environment
(`AWS_ACCESS_KEY_ID`, `AWS_REGION`, …), a profile, a container's or machine's role; another server
than Amazon's is named by `AWS_ENDPOINT_URL`.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.fs

from goqueue.spark.lake.azure import azure_place, is_emulated
from goqueue.spark.lake.roots import StoreError, is_remote, normalize

ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class StoredFile(msgspec.Struct, frozen=True):
    path: str  # relative to the root
    bytes: int
    modified: float  # seconds since 1970


@lru_cache(maxsize=256)
def store_of(root: str) -> "Store":
    """One for each place and process: a filesystem has connections."""
    return Store(root)


class Store:
    """The files below one place.  Paths are relative to it."""

    def __init__(self, root: str) -> None:
        self.root = normalize(root)
        self.is_remote = is_remote(self.root)

    @cached_property
    def _place(self) -> tuple[Any, str]:
        if not self.is_remote:
            return pa.fs.LocalFileSystem(), self.root
        try:
            if self.root.startswith("abfss://") and (found := azure_place(self.root)):
                return found
            filesystem, path = pa.fs.FileSystem.from_uri(self.root)
        except (pa.ArrowException, OSError) as error:
            raise StoreError(f"{self.root}: {error}") from error
        return filesystem, path

    @property
    def filesystem(self) -> Any:
        return self._place[0]

    def path(self, relative: str) -> str:
        """As the filesystem calls it."""
        return f"{self._place[1]}/{relative}" if relative else self._place[1]

    def url(self, relative: str) -> str:
        """As others call it."""
        root = self.root if self.is_remote else f"file://{self.root}"
        return f"{root}/{relative}" if relative else root

    def check(self) -> None:
        """Raise `StoreError` when it cannot be reached: before a job starts, not in its middle."""
        if not self.is_remote:
            return
        bucket = self.path("").partition("/")[0]
        try:
            found = self.filesystem.get_file_info(bucket)
        except OSError as error:
            raise StoreError(f"{self.root} cannot be reached: {error}") from error
        if found.type is pa.fs.FileType.NotFound:
            raise StoreError(f"{self.root}: there is no bucket {bucket!r}")

    def create(self, relative: str) -> IO[bytes]:
        """A file that must not be there; it is durable once it is closed and `sync` was called."""
        if self.is_remote:
            opened: IO[bytes] = self.filesystem.open_output_stream(self.path(relative))
            return opened
        path = Path(self.root, relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "xb")

    def sync(self, file: IO[bytes]) -> None:
        """An object is durable when it is closed; a file when its disk has it."""
        file.flush()
        if not self.is_remote:
            os.fsync(file.fileno())

    def open(self, relative: str) -> Any:
        return self.filesystem.open_input_file(self.path(relative))

    def has(self, relative: str) -> bool:
        return next(iter(self.have([relative])))

    def have(self, relatives: Iterable[str]) -> list[bool]:
        found = self.filesystem.get_file_info([self.path(each) for each in relatives])
        return [each.type is not pa.fs.FileType.NotFound for each in found]

    def delete(self, relative: str) -> None:
        """One that is not there is as good."""
        try:
            self.filesystem.delete_file(self.path(relative))
        except FileNotFoundError:
            return

    def files(self, below: str = "") -> Iterator[StoredFile]:
        """All files below, in order of their names."""
        for each in self._list(below, recursive=True):
            if each.type is pa.fs.FileType.File:
                yield StoredFile(self._relative(each.path), each.size, each.mtime.timestamp())

    def folders(self) -> list[str]:
        """The names of the folders right below."""
        found = self._list("", recursive=False)
        names = [each.base_name for each in found if each.type is pa.fs.FileType.Directory]
        return sorted(names)

    def _list(self, below: str, *, recursive: bool) -> list[Any]:
        selector = pa.fs.FileSelector(self.path(below), recursive=recursive, allow_not_found=True)
        return sorted(self.filesystem.get_file_info(selector), key=lambda each: each.path)

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._place[1]).lstrip("/")


def is_in_clear() -> bool:
    """Whether the store is one that has no TLS."""
    return (s3_endpoint() or "").startswith("http://") or is_emulated()


def s3_endpoint() -> str | None:
    """Another server than Amazon's."""
    return next((os.environ[each] for each in ENDPOINTS if os.environ.get(each)), None)
