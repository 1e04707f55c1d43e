"""`goqueue pipeline export`: a declared pipeline as a project of Spark Declarative Pipelines."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.commands.pipeline.run import PipelineArgument
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.jobs import Bootstrap, bootstrap_of
from goqueue.cli.output import show_value
from goqueue.cli.pipeline_files import PipelineFile
from goqueue.cli.session import Session


def export(
    context: typer.Context,
    file: PipelineArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New directory for the project.")],
    bootstrap: Bootstrap = None,
) -> None:
    """Export a pipeline as a project for Spark Declarative Pipelines (`spark-pipelines run`).

    Such projects only append: sinks that update, archives and consoles are left out and listed.
    """
    from goqueue.spark.pipelines.exporting import exported

    session = context.ensure_object(Session)
    chosen = session.output_format()
    declared = PipelineFile(file)
    places = declared.places(bootstrap_of(session, bootstrap or declared.pipeline.bootstrap))
    if folder.exists():
        raise UsageFailure(f"{folder} is there already: name a new folder")
    made = exported(declared.pipeline, places, folder)
    if len(made.left_out) == len(declared.pipeline.sinks):
        raise Failure("\n".join(["no sink can be exported", *_reasons(made.left_out)]))
    for name, text in made.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for line in _reasons(made.left_out):
        typer.echo(f"left out: {line}", err=True)
    if chosen == "table":
        typer.echo(f"{folder}: run it with `spark-pipelines run` there")
    else:
        show_value(chosen, {"folder": str(folder), "left_out": made.left_out})


def _reasons(left_out: dict[str, str]) -> list[str]:
    return [f"sinks.{name}: {reason}" for name, reason in left_out.items()]
