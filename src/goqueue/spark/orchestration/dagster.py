"""Assets for Dagster: one for each sink of a declared pipeline, all made by one run of it.

    from goqueue.spark.orchestration.dagster import pipeline_assets

    orders = pipeline_assets("pipelines/orders.yaml")

A run processes what is there and goes on from the checkpoint: materializing again brings what came
since, and every row is written exactly once.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster import AssetExecutionContext, AssetKey, AssetSpec, MaterializeResult, multi_asset

from goqueue.spark.orchestration.pipeline_process import PipelineProcess
from goqueue.spark.pipelines.dependencies import sources_of
from goqueue.spark.pipelines.model import FileSource, Pipeline, Source
from goqueue.spark.pipelines.reading import read_pipeline


def pipeline_assets(
    file: str,
    *,
    bootstrap: str | None = None,
    settings: Mapping[str, str] | None = None,
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    key_prefix: Sequence[str] = (),
    group_name: str | None = None,
) -> Any:
    """A definition of assets: `PREFIX/PIPELINE/SINK`, with the topics that they stand on."""
    variables = {**os.environ, **(environment or {})}
    pipeline = read_pipeline(Path(file).read_text(encoding="utf-8"), variables)
    specs = asset_specs(pipeline, key_prefix, group_name)

    name = "_".join((*key_prefix, pipeline.name)).replace("-", "_")

    @multi_asset(name=name, specs=specs)  # type: ignore[untyped-decorator]  # may be missing
    def run(context: AssetExecutionContext) -> Iterator[Any]:
        process = PipelineProcess(
            file, bootstrap=bootstrap, settings=settings, python=python, environment=environment
        )
        rows = {each.name: each for each in process.run(lambda each: context.log.info(str(each)))}
        for sink in pipeline.sinks:
            done = rows.get(f"{pipeline.name}.{sink}")
            yield MaterializeResult(
                asset_key=_key(pipeline, sink, key_prefix),
                metadata={"rows": 0 if done is None else done.rows},
            )

    return run


def asset_specs(pipeline: Pipeline, key_prefix: Sequence[str], group_name: str | None) -> list[Any]:
    return [
        AssetSpec(
            _key(pipeline, name, key_prefix),
            deps=[
                AssetKey(list(each))
                for source in sources_of(pipeline, sink.from_)
                for each in _origins(pipeline.sources[source])
            ],
            group_name=group_name,
            kinds={"spark"},
        )
        for name, sink in pipeline.sinks.items()
    ]


def _key(pipeline: Pipeline, sink: str, prefix: Sequence[str]) -> Any:
    return AssetKey([*prefix, pipeline.name, sink])


def _origins(source: Source) -> list[Sequence[str]]:
    """Assets of others, which this one does not make."""
    if isinstance(source, FileSource):
        return [("files", source.files)]
    return [("topics", each) for each in source.topics or [source.topic or source.pattern or ""]]
