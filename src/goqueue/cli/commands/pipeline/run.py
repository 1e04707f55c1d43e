"""`goqueue pipeline run`: run a declared pipeline, or show what it would do."""

from typing import TYPE_CHECKING, Annotated

from goqueue.cli.commands.pipeline.check import PipelineArgument
from goqueue.cli.failures import ExitCode, Failure
from goqueue.cli.jobs import JobOptions, reached_broker
from goqueue.cli.pipeline_files import PipelineFile
from goqueue.cli.pipeline_views import show_description, show_end, show_rows
from goqueue.cli.session import Session
from goqueue.model.options import option

if TYPE_CHECKING:
    from goqueue.spark.runtime.job_runner import Runner


def run(
    session: Session,
    file: PipelineArgument,
    dry_run: Annotated[bool, option("Show the plan and the schemas; write nothing.")] = False,
    explain: Annotated[bool, option("With --dry-run: show Spark's plans, too.")] = False,
    once: Annotated[bool, option("Process the existing input, then stop.")] = False,
    *,
    options: JobOptions,
) -> None:
    """Run a declared pipeline until ctrl-c, or with --once until all input is processed.

    Progress is kept in checkpoints: after a stop or a crash, run the same command again. Every sink
    gets every row exactly once.
    """
    from goqueue.spark.pipelines.job import PipelineJob

    declared = PipelineFile(file)
    places = declared.places(
        reached_broker(session, options, declared.pipeline.bootstrap, declared.login)
    )
    with (
        declared.problems_shown(),
        options.run(
            session,
            declared.pipeline.name,
            defaults=declared.spark_settings(),
            has_results=dry_run,
            may_connect=True,
        ) as running,
    ):
        job = PipelineJob(running.spark, declared.pipeline, places)
        if dry_run:
            show_description(job.describe(), explain=explain)
            return
        ended = running.streams(job.start(show_rows, once=once))
    show_end(ended)
    _check_complete(running, is_endless=job.is_endless(once=once))


def _check_complete(running: "Runner", *, is_endless: bool) -> None:
    """Being stopped is how an endless job ends; another one has work left."""
    if running.stop.requested and not is_endless:
        raise Failure("stopped before everything was processed", ExitCode.INTERRUPTED)
