"""What a table of a lake is to a job, whatever its format.

Tasks write Parquet files to where `Placement` says; none of them is part of the table yet.  The
driver then adds them in ONE commit, which also moves the table's *marks*: a mark is a name and a
number that only grows.  The archive's marks are `topic id/partition -> next offset`, another job's
may be `application -> batch`.  Files and marks change together or not at all, so whoever starts
again reads the marks and knows what is there.  That is the whole of exactly once:

    since = table.marks(names)               what is there
    files = ... write what is not ...        any number of tasks, attempts and crashes
    table.commit(files, marks, since)        refused when somebody else was here meanwhile

Files that no commit took in are garbage which `vacuum` removes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from goqueue.client.errors import ClientError

if TYPE_CHECKING:
    from goqueue.spark.lake.store import Store

DATE_FOLDER: Final = "{column}={date}"
NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"  # what other readers take for null


class LakeError(ClientError):
    """A table cannot be read or written as asked."""


class MarksMoved(LakeError):
    """Somebody else has committed meanwhile: read the marks again and write what is left."""


class Placement(msgspec.Struct, frozen=True):
    """Where tasks write.  Plain data: it travels to them."""

    root: str  # the table's folder, absolute, or its URL in an object store
    folder: str  # below it
    date_column: str | None  # files hold one day each, in a folder `date_column=YYYY-MM-DD`
    time_column: str | None  # the timestamp that tells the day
    suffix: str = ".parquet"


class LakeFile(msgspec.Struct, frozen=True):
    """A file that is part of a table."""

    path: str  # relative to the table's folder
    date: str | None  # YYYY-MM-DD in UTC, or NO_DATE; None in a table without days
    bytes: int


class DataFile(LakeFile, frozen=True, kw_only=True):
    """A Parquet file that a task has written: rows of one day."""

    rows: int
    # Smallest and largest value of the columns of whole numbers and times (as microseconds).
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}


class LakeTable(Protocol):
    """A table in one format.  An object holds no state of it: each call reads it again."""

    @property
    def location(self) -> str:
        """The table's folder."""

    def placement(self) -> Placement: ...

    def schema(self) -> Any:
        """The Arrow schema, without the date column; None when there is no such table."""

    def marks(self, names: Iterable[str]) -> dict[str, int]:
        """Where the named marks stand; those that were never set are left out."""

    def ensure(self, schema: Any) -> None:
        """Make the table, or add the columns that it lacks.  Types that are there stay."""

    def commit(
        self, files: Sequence[DataFile], marks: Mapping[str, int], since: Mapping[str, int]
    ) -> None:
        """Add files and move marks, at once.

        MarksMoved when one of `marks` is no longer what `since` says.
        """

    def files(self) -> list[LakeFile]:
        """What the table consists of now."""

    def replace(self, old: Sequence[LakeFile], new: Sequence[DataFile]) -> None:
        """Put `new`, which hold the same rows, in the place of `old`, at once.

        LakeError when one of `old` is gone.
        """

    def vacuum(self, *, hours: float, dry_run: bool) -> list[str]:
        """Remove what no reader of the last `hours` can need; gives the paths."""


def check_present(store: "Store", files: Sequence[DataFile]) -> None:
    """Raise when a file that is about to be committed has vanished."""
    for file, is_there in zip(files, store.have(each.path for each in files), strict=True):
        if not is_there:
            raise LakeError(
                f"{store.root}/{file.path} was written for this commit and is gone: vacuum only"
                " with more hours than a batch can take"
            )


def check_marks(marks: Mapping[str, int], since: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Raise when a mark has moved since, or would not go forward."""
    for name, value in marks.items():
        if now.get(name) != since.get(name):
            raise MarksMoved(
                f"mark {name!r} was {since.get(name)} and is {now.get(name)} now:"
                " another job writes to this table"
            )
        assert value > since.get(name, -1), "a mark goes forward"
