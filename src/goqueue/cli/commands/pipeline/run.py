"""`goqueue pipeline run`: run a declared pipeline, or show what it would do."""

from typing import TYPE_CHECKING, Annotated

import typer

from goqueue.cli.failures import ExitCode, Failure
from goqueue.cli.jobs import (
    LOCAL,
    Bootstrap,
    Master,
    Settings,
    reached_broker,
    spark_job,
)
from goqueue.cli.pipeline_files import PipelineFile
from goqueue.cli.pipeline_views import rows_shown, show_description, show_end
from goqueue.cli.session import Session

if TYPE_CHECKING:
    from goqueue.spark.runtime.job_runner import Runner

PipelineArgument = Annotated[str, typer.Argument(metavar="FILE", help="The pipeline, in YAML.")]


def run(
    context: typer.Context,
    file: PipelineArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan and the schemas; write nothing.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="With --dry-run: show Spark's plans, too.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Process the existing input, then stop.")
    ] = False,
    bootstrap: Bootstrap = None,
    master: Master = LOCAL,
    settings: Settings = None,
) -> None:
    """Run a declared pipeline until ctrl-c, or with --once until all input is processed.

    Progress is kept in checkpoints: after a stop or a crash, run the same command again. Every sink
    gets every row exactly once.
    """
    from goqueue.spark.pipelines.job import PipelineJob

    session = context.ensure_object(Session)
    chosen = session.output_format()
    declared = PipelineFile(file)
    places = declared.places(reached_broker(session, bootstrap or declared.pipeline.bootstrap))
    with (
        declared.problems_shown(),
        spark_job(
            session,
            declared.pipeline.name,
            master=master,
            settings=settings,
            defaults=declared.spark_settings(),
            has_results=dry_run,
        ) as running,
    ):
        job = PipelineJob(running.spark, declared.pipeline, places)
        if dry_run:
            show_description(chosen, job.describe(), explain=explain)
            return
        ended = running.streams(job.start(rows_shown(chosen), once=once))
    show_end(chosen, ended)
    _check_complete(running, is_endless=job.is_endless(once=once))


def _check_complete(running: "Runner", *, is_endless: bool) -> None:
    """Being stopped is how an endless job ends; another one has work left."""
    if running.stop.requested and not is_endless:
        raise Failure("stopped before all was worked off", ExitCode.INTERRUPTED)
