"""How the driver ends what its tasks began: by a decision, or by giving it up."""

from collections.abc import Sequence
from functools import partial

import structlog

from goqueue.client.errors import ClientError
from goqueue.spark.sink.ages import warn_of_old
from goqueue.spark.sink.attempt import Outcome, connect
from goqueue.spark.sink.checkpoint import batch_contents
from goqueue.spark.sink.group import Group, Version
from goqueue.spark.sink.hints import add_hints
from goqueue.spark.sink.options import SinkOptions

Report = tuple[Version, Outcome]
"""What one task wrote, and what came of it."""

_log = structlog.get_logger("goqueue.spark")


def decide(reports: Sequence[Report], options: SinkOptions) -> None:
    """One record on the broker makes everything visible that the tasks wrote."""
    if not reports:
        return  # no task, so nothing was written
    version, outcome = reports[0]
    members = [each.member for _, each in reports if each.member is not None]
    with add_hints(), Group(outcome.url, options.timeout_ms, options.login) as group:
        group.decide(version, outcome.run, members, _contents(reports, options))
    _warn_of_old(reports, options)


def _warn_of_old(reports: Sequence[Report], options: SinkOptions) -> None:
    oldest: dict[str, int] = {}
    for _, outcome in reports:
        for topic, timestamp in outcome.oldest.items():
            oldest[topic] = min(timestamp, oldest.get(topic, timestamp))
    warn_of_old(partial(connect, options), oldest)


def _contents(reports: Sequence[Report], options: SinkOptions) -> str:
    """What tells a repetition of a version from other rows under its number.

    The source offsets in the checkpoint do; where that cannot be read, the number of rows.
    """
    version = reports[0][0]
    found = None
    if options.checkpoint is not None:
        found = batch_contents(options.checkpoint, version.number)
    return found or f"{sum(outcome.rows for _, outcome in reports)} rows"


def abort(
    reports: Sequence[Report], options: SinkOptions, application: str | None, number: int
) -> None:
    """End what the tasks began, so that readers need not wait for it.

    Tasks that were killed report nothing.  Then all attempts at the version are ended, in the name
    of the newest run: if that is another driver's, its batch fails too, and is written once more.
    Never raises: why the job failed is what matters, and a next run ends what is left.
    """
    try:
        if reports:
            version, outcome = reports[0]
            with Group(outcome.url, options.timeout_ms, options.login) as group:
                group.abort(version.application, version.number, outcome.run)
        elif application is not None:
            with Group(http_url(options), options.timeout_ms, options.login) as group:
                run = group.newest_run(application)
                if run is not None:
                    group.abort(application, number, run)
    except ClientError as error:
        _log.warning("attempts not aborted", application=application, problem=str(error))


def retire(reports: Sequence[Report], options: SinkOptions) -> None:
    """Forget an application that will not come back; the broker would too, after a while."""
    if not reports:
        return
    version, outcome = reports[0]
    try:
        with Group(outcome.url, options.timeout_ms, options.login) as group:
            group.retire(version.application)
    except ClientError as error:
        _log.warning("not retired", application=version.application, problem=str(error))


def http_url(options: SinkOptions) -> str:
    """Where the broker's HTTP listener is, as given or as the brokers say."""
    if options.http is not None:
        return options.http
    with connect(options) as kafka:
        return kafka.http_url()
