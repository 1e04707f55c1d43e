"""`goqueue pipeline replay`: an archive, or a range of a topic, into a topic, exactly once."""

from typing import Annotated

import msgspec

from goqueue.cli.failures import UsageFailure
from goqueue.cli.jobs import JobOptions, reached_broker
from goqueue.cli.output import show_text
from goqueue.cli.session import Session
from goqueue.model.options import option
from goqueue.spark.replay.options import Choice, ReplayOptions


def replay(
    session: Session,
    told: ReplayOptions,
    choice: Choice,
    by_key: Annotated[bool, option("Choose partitions by key instead of keeping them.")] = False,
    new_times: Annotated[bool, option("Use the time of the replay as timestamp.")] = False,
    *,
    job: JobOptions,
) -> None:
    """Write messages of an archive or a topic to a topic again, in order and exactly once.

    An archive also has messages that retention has deleted. After a crash, run the same command
    again: the replay continues.
    """
    if (told.archive is None) == (told.topic is None):
        raise UsageFailure("name what to replay: --archive DIR or --topic TOPIC")
    options = msgspec.structs.replace(
        told,
        bootstrap=reached_broker(session, job),
        choice=msgspec.structs.replace(choice, partitions=tuple(sorted(choice.partitions))),
        partitions="key" if by_key else "keep",
        times="now" if new_times else "keep",
    )
    from goqueue.spark.replay.job import replay as replay_messages

    with job.run(session, "replay", has_results=True) as running:
        done = running.job("replay", lambda: replay_messages(running.spark, options))
    if done.was_finished:
        text = f"{done.name} was done before: --name another one to do it again"
    else:
        text = f"{done.messages} messages replayed to {options.to!r} as {done.name}"
    show_text(done, text)
