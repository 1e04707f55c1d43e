"""Where the rows of a sink come from and go to, in OpenLineage's names.

A topic is `TOPIC` in the namespace `kafka://HOST:PORT`, a table in an object store is its path in
`s3://BUCKET`, one in a folder its path in `file`: the names that other tools give them, too.
"""

from typing import Any
from urllib.parse import urlsplit

import msgspec

from goqueue.spark.pipelines.dependencies import sources_of
from goqueue.spark.pipelines.model import (
    ArchiveSink,
    ConsoleSink,
    FileSink,
    FileSource,
    Pipeline,
    Sink,
    TableSink,
    TopicSink,
    TopicSource,
)
from goqueue.spark.pipelines.places import Places

Columns = list[tuple[str, str]]  # name and type


class Dataset(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    columns: Columns = []


class Lineage(msgspec.Struct, frozen=True):
    """Of one query."""

    inputs: list[Dataset]
    outputs: list[Dataset]


def lineage_of(
    pipeline: Pipeline, sink: Sink, places: Places, frames: dict[str, Any], output: Any
) -> Lineage:
    """`frames` are the views by name, `output` is what the sink writes."""
    names = sources_of(pipeline, sink.from_)
    inputs = [
        dataset
        for name in names
        for dataset in _inputs(pipeline.sources[name], places, columns_of(frames.get(name)))
    ]
    return Lineage(inputs, _outputs(sink, inputs, places, columns_of(output)))


def columns_of(frame: Any) -> Columns:
    if frame is None:
        return []
    return [(each.name, each.dataType.simpleString()) for each in frame.schema.fields]


def _inputs(source: TopicSource | FileSource, places: Places, columns: Columns) -> list[Dataset]:
    if isinstance(source, FileSource):
        return [_place(places.path(source.files), columns)]
    topics = source.topics or [source.topic or source.pattern or ""]
    return [_topic(each, places, columns) for each in topics]


def _outputs(sink: Sink, inputs: list[Dataset], places: Places, columns: Columns) -> list[Dataset]:
    match sink:
        case TopicSink(topic=topic):
            return [_topic(topic, places, columns)]
        case ArchiveSink(archive=folder):  # a table for each topic
            tables = [f"{places.path(folder)}/{each.name}" for each in inputs]
            return [_place(each, columns) for each in tables]
        case TableSink(table=folder) | FileSink(files=folder):
            return [_place(places.path(folder), columns)]
        case ConsoleSink():
            return []


def _topic(name: str, places: Places, columns: Columns) -> Dataset:
    first = places.bootstrap.split(",", maxsplit=1)[0].strip()
    return Dataset(f"kafka://{first}", name, columns)


def _place(path: str, columns: Columns) -> Dataset:
    parts = urlsplit(path)
    if "://" not in path:
        return Dataset("file", path, columns)
    return Dataset(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"), columns)
