"""`goqueue pipeline export`: a declared pipeline as a project of Spark Declarative Pipelines."""

from pathlib import Path
from typing import Annotated

import typer

from goqueue.cli.commands.pipeline.check import PipelineArgument
from goqueue.cli.failures import Failure, UsageFailure
from goqueue.cli.jobs import Bootstrap, bootstrap_of
from goqueue.cli.output import show_text
from goqueue.cli.pipeline_files import PipelineFile
from goqueue.cli.session import Session
from goqueue.model.options import argument


def export(
    session: Session,
    file: PipelineArgument,
    folder: Annotated[Path, argument("New directory for the project.", metavar="DIR")],
    bootstrap: Bootstrap = None,
) -> None:
    """Export a pipeline as a project for Spark Declarative Pipelines (`spark-pipelines run`).

    Such projects only append: sinks that update, archives and consoles are left out and listed.
    """
    from goqueue.spark.pipelines.exporting import export as export_pipeline

    declared = PipelineFile(file)
    places = declared.places(bootstrap_of(session, bootstrap or declared.pipeline.bootstrap))
    if folder.exists():
        raise UsageFailure(f"{folder} is there already: name a new folder")
    made = export_pipeline(declared.pipeline, places, folder)
    if len(made.left_out) == len(declared.pipeline.sinks):
        raise Failure("\n".join(["no sink can be exported", *_reasons(made.left_out)]))
    for name, text in made.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for line in _reasons(made.left_out):
        typer.echo(f"left out: {line}", err=True)
    show_text(
        {"folder": str(folder), "left_out": made.left_out},
        f"{folder}: run it with `spark-pipelines run` there",
    )


def _reasons(left_out: dict[str, str]) -> list[str]:
    return [f"sinks.{name}: {reason}" for name, reason in left_out.items()]
