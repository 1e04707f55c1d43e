"""`goqueue pipeline archive`: topics as tables of a lake, exactly once."""

from typing import Annotated

import msgspec

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import JobOptions, bootstrap_of, check_broker
from goqueue.cli.moments import duration_ms
from goqueue.cli.session import Session
from goqueue.model.options import option
from goqueue.spark.archive.options import ArchiveOptions


def archive(
    session: Session,
    told: ArchiveOptions,
    every: Annotated[str, option("Time between commits: 30s, 5m.", metavar="TIME")] = "1m",
    once: Annotated[bool, option("Archive the existing messages, then stop.")] = False,
    batch_mib: Annotated[int, option("Approximate size of a commit.", min=1, max=1 << 20)] = 1024,
    *,
    job: JobOptions,
) -> None:
    """Write topics to Parquet, Delta or Iceberg tables, exactly once and continuously.

    Rows that cannot be decoded go to the table TOPIC_dlq, with the reason.
    """
    from goqueue.spark.archive.job import archive as start_archive
    from goqueue.spark.archive.job import check_options, check_target, topic_facts

    options = msgspec.structs.replace(
        told,
        trigger="available-now" if once else f"{duration_ms(every, '--every')} milliseconds",
        batch_bytes=batch_mib << 20,
        bootstrap=bootstrap_of(session, job.bootstrap),
    )
    job.log_in()
    problem = check_options(options)
    if problem is not None:
        raise UsageFailure(problem)
    check_broker(options.bootstrap)
    check_target(options.target)
    for topic in options.topics:  # before Spark starts: a name that is wrong is told at once
        topic_facts(options, topic)
    with job.run(session, "archive") as running:
        running.streams([start_archive(running.spark, options)])
