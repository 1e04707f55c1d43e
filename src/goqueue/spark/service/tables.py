"""Topics that are kept as tables because their settings say so.

    goqueue topic create orders --set goqueue.table.format=delta
    goqueue pipeline serve pipelines --tables s3://bucket/lake

Each is a pipeline of one archive, supervised as those of files are.  The topic says that it is a
table, and of which format; where the tables are is said by whoever runs the service, because that
is where the credentials are.  A setting that is taken away, or a topic that is deleted, ends the
archive; the table stays.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from goqueue.api.topics import TopicSummary
from goqueue.client.errors import ClientError
from goqueue.spark.archive.job import check_target
from goqueue.spark.archive.options import LakeFormat
from goqueue.spark.lake.roots import normalize
from goqueue.spark.pipelines.model import ArchiveSink, Pipeline, TopicSource
from goqueue.spark.service.files import Declared

FORMAT: Final = "goqueue.table.format"
DECODE: Final = "goqueue.table.decode"
NONE: Final = "none"
PREFIX: Final = "table."  # before the topic: the pipeline's name
FOLDER: Final = "tables"  # below that of the files: for the checkpoints
LOOK_SECONDS: Final = 10.0

List = Callable[[], Iterable[TopicSummary]]


class TableOptions(msgspec.Struct, frozen=True):
    place: str
    """Folder or URL of the tables: one for each topic."""
    catalog: str | None = None
    """Of Iceberg tables."""
    every: str = "1m"
    """How often what has come is committed."""


def table_options(place: str, catalog: str | None, every_ms: int) -> TableOptions:
    """Raises `StoreError` where no tables can be, or where they cannot be reached."""
    root = normalize(place)
    check_target(root)
    return TableOptions(root, catalog, f"{every_ms}ms")


class TopicTables:
    """What topics declare, asked of the broker now and then."""

    def __init__(
        self, topics: List, options: TableOptions, folder: Path, steady: Callable[[], float]
    ) -> None:
        self._topics = topics
        self._options = options
        self._folder = folder / FOLDER
        self._steady = steady
        self._last: list[Declared] = []
        self._due = 0.0

    def look(self) -> list[Declared]:
        """A broker that is away stops no archive."""
        now = self._steady()
        if now < self._due:
            return self._last
        self._due = now + LOOK_SECONDS
        try:
            found = list(self._topics())
        except ClientError:
            return self._last
        self._last = [
            declare_table(each.name, each.settings, self._options, self._folder)
            for each in found
            if not each.internal and each.settings.get(FORMAT, NONE) != NONE
        ]
        return self._last


def declare_table(
    topic: str, settings: Mapping[str, str], options: TableOptions, folder: Path
) -> Declared:
    """The pipeline that keeps a topic as a table."""
    decode = settings.get(DECODE, NONE)
    format = settings[FORMAT]
    pipeline = Pipeline(
        name=f"{PREFIX}{topic}",
        sources={
            "messages": TopicSource(
                topic=topic, format="registry" if decode == "registry" else None
            )
        },
        sinks={
            "table": ArchiveSink(
                archive=options.place,
                from_="messages",
                format=msgspec.convert(format, LakeFormat),
                catalog=options.catalog if format == "iceberg" else None,
                decode=decode != NONE,
            )
        },
        trigger=options.every,
    )
    told = msgspec.json.encode([format, decode, options])
    version = hashlib.sha256(told).hexdigest()[:12]
    return Declared(pipeline.name, folder / topic, version, pipeline)
