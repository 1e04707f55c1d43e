"""The topics of a pipeline, as the broker has them."""

from collections.abc import Iterator, Mapping

from goqueue.client.kafka import KafkaClient
from goqueue.spark.pipelines.expectations import topics_of
from goqueue.spark.pipelines.model import (
    BadTopic,
    Pipeline,
    Source,
    Step,
    TopicSink,
    TopicSource,
)
from goqueue.spark.pipelines.suggestions import suggestion
from goqueue.spark.pipelines.tree import Problem


def missing_topics(client: KafkaClient, pipeline: Pipeline) -> list[Problem]:
    """Those that are read, and those that are written and that nobody is to make."""
    there = client.metadata().keys()
    wanted = [*_read(pipeline), *_list_written(pipeline)]
    return [
        Problem(path, f"there is no topic {name!r}{suggestion(name, there)}{advice}")
        for path, name, advice in wanted
        if name not in there
    ]


def make_topics(client: KafkaClient, pipeline: Pipeline) -> list[str]:
    """The ones that are declared with a number of partitions; gives what was made."""
    there = client.metadata().keys()
    wanted = {
        each.topic: each.partitions
        for _, each in _targets(pipeline)
        if each.partitions is not None and each.topic not in there
    }
    for name, partitions in wanted.items():
        client.create_topic(name, partitions=partitions)
    return list(wanted)


def _read(pipeline: Pipeline) -> Iterator[tuple[str, str, str]]:
    for name, source in pipeline.sources.items():
        if isinstance(source, TopicSource) and source.pattern is None:
            for topic in source.topics or [source.topic or ""]:
                yield f"sources.{name}", topic, ""


def _list_written(pipeline: Pipeline) -> Iterator[tuple[str, str, str]]:
    for path, each in _targets(pipeline):
        if each.partitions is None:
            yield f"{path}.topic", each.topic, "; `partitions: 3` beside it would make it"


def _targets(pipeline: Pipeline) -> Iterator[tuple[str, TopicSink | BadTopic]]:
    for name, sink in pipeline.sinks.items():
        if isinstance(sink, TopicSink):
            yield f"sinks.{name}", sink
    for name, source in pipeline.sources.items():
        if isinstance(source, TopicSource) and isinstance(source.bad, BadTopic):
            yield f"sources.{name}.bad", source.bad
    sections: dict[str, Mapping[str, Source | Step]]
    sections = {"sources": pipeline.sources, "steps": pipeline.steps}
    for section, views in sections.items():
        for view, each in views.items():
            for name, target in topics_of(each):
                yield f"{section}.{view}.expect.{name}.otherwise", target
