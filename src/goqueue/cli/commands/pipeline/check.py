"""`goqueue pipeline check`: what is wrong with a pipeline's file, without Spark or a broker."""

from typing import Annotated

from goqueue.cli.output import show_text
from goqueue.cli.pipeline_files import PipelineFile
from goqueue.model.options import argument

PipelineArgument = Annotated[str, argument("The pipeline, in YAML.", metavar="FILE")]


def check(file: PipelineArgument) -> None:
    """Check a pipeline file and list all its problems.

    `goqueue pipeline run FILE --dry-run` also asks Spark and the broker.
    """
    pipeline = PipelineFile(file).pipeline
    show_text(
        pipeline,
        f"{file}: pipeline {pipeline.name!r}, {len(pipeline.sources)} sources,"
        f" {len(pipeline.steps)} steps, {len(pipeline.sinks)} sinks",
    )
