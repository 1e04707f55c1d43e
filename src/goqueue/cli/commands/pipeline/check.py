"""`goqueue pipeline check`: what is wrong with a pipeline's file, without Spark or a broker."""

from typing import Annotated

import typer

from goqueue.cli.output import show_value
from goqueue.cli.pipeline_files import PipelineFile
from goqueue.cli.session import Session


def check(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The pipeline, in YAML.")],
) -> None:
    """Check a pipeline file and list all its problems.

    `goqueue pipeline run FILE --dry-run` also asks Spark and the broker.
    """
    chosen = context.ensure_object(Session).output_format()
    pipeline = PipelineFile(file).pipeline
    if chosen == "table":
        typer.echo(
            f"{file}: pipeline {pipeline.name!r}, {len(pipeline.sources)} sources,"
            f" {len(pipeline.steps)} steps, {len(pipeline.sinks)} sinks"
        )
    else:
        show_value(chosen, pipeline)
