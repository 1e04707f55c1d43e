"""The log beside a plain Parquet table in an object store: one small object a decision.

    table/_goqueue/log/00000000000000000042.json     the 42nd decision, as in `commit_log`

An object is put under its number only if there is none yet (`If-None-Match: *`), which all of these
stores promise: two writers cannot both decide.  There is no lock, so a number is never given again:
old entries stay until `vacuum`, when they are older than any writer is slow.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import msgspec
import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from goqueue.spark.lake.commit_log import ENTRIES_KEPT, FOLDER, VERSION, Entry
from goqueue.spark.lake.store import is_in_clear
from goqueue.spark.lake.table import LakeError, MarksMoved

ENTRIES: Final = f"{FOLDER}/log"


class ObjectLog:
    def __init__(self, root: str) -> None:
        self._root = root
        self._known = 0  # the highest number seen: what is below need not be listed again
        self._objects: Any = from_url(root, client_options={"allow_http": is_in_clear()})

    def newest(self) -> tuple[int, Entry] | None:
        """The last decision and its number."""
        numbers = list(self._numbers(after=max(self._known - 1, 0)))
        if not numbers:
            return None
        self._known = max(numbers)
        return self._known, self._read(self._known)

    def append(self, number: int, entry: Entry) -> None:
        """Decide.  MarksMoved when somebody else has decided that number; or we have, and the
        answer was lost: the marks tell."""
        data = msgspec.json.format(msgspec.json.encode(entry))
        try:
            obstore.put(self._objects, _path(number), data, mode="create")
        except AlreadyExistsError as error:
            raise MarksMoved(
                f"another job has written {self._root}/{_path(number)} meanwhile"
            ) from error
        except BaseError as error:
            raise LakeError(f"{self._root}/{_path(number)}: {_first_line(error)}") from error

    def lock(self) -> AbstractContextManager[None]:
        """There is none: two may decide at once, and one of them is refused."""
        return nullcontext()

    def old_entries(self, before: float) -> list[str]:
        """Paths of entries that were written before then, and that no writer needs."""
        found = [each for page in obstore.list(self._objects, ENTRIES) for each in page]
        found.sort(key=lambda each: each["path"])
        return [
            each["path"]
            for each in found[:-ENTRIES_KEPT]
            if each["last_modified"].timestamp() < before
        ]

    def _numbers(self, after: int) -> Iterator[int]:
        try:
            for page in obstore.list(self._objects, ENTRIES, offset=_path(after)):
                for each in page:
                    name = each["path"].rpartition("/")[2].removesuffix(".json")
                    if name.isdigit():
                        yield int(name)
        except BaseError as error:
            raise LakeError(f"{self._root}: {_first_line(error)}") from error

    def _read(self, number: int) -> Entry:
        place = f"{self._root}/{_path(number)}"
        try:
            data = bytes(obstore.get(self._objects, _path(number)).bytes())
            entry = msgspec.json.decode(data, type=Entry)
        except BaseError as error:
            raise LakeError(f"{place}: {_first_line(error)}") from error
        except msgspec.DecodeError as error:
            raise LakeError(f"{place} is damaged: {error}") from error
        if entry.version != VERSION:
            raise LakeError(f"{place} has version {entry.version}, {VERSION} is understood here")
        return entry


def _path(number: int) -> str:
    return f"{ENTRIES}/{number:020d}.json"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
