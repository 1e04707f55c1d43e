"""The writers that Spark calls, for streams and for batches.

    driver      writer()  ──pickled──>  tasks: write(rows) ──message──>  driver: commit or abort

Of a stream, the writer that commits is not the one that was planned, and lives in another process:
only messages come through.  `abort` is called also when `commit` failed, with a decision that may
have been taken all the same: the broker then leaves it as it is.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import structlog
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from goqueue.client.errors import ClientError
from goqueue.spark.given import refuse
from goqueue.spark.sink.attempt import Outcome, write_rows
from goqueue.spark.sink.group import Group, Version
from goqueue.spark.sink.hints import hinted
from goqueue.spark.sink.options import SinkOptions, sink_options
from goqueue.spark.sink.schema import schema_problems
from goqueue.spark.sink.task import Task, this_task

_log = structlog.get_logger("goqueue.spark")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    version: Version
    outcome: Outcome


class StreamWriter(DataSourceStreamArrowWriter):
    """Each micro-batch is a version of its query, or of `txnAppId`."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._options = _checked(schema, options, is_stream=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = this_task()
        version = self.version_of(task)
        return Written(version, write_rows(self._options, version, task, iterator))

    def version_of(self, task: Task) -> Version:
        assert task.query_id is not None, "a stream's task belongs to a query"
        assert task.batch_id is not None, "and to a micro-batch"
        return Version(
            self._options.application or task.query_id,
            task.batch_id,
            task.run_id or task.query_id,
        )

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        _decide(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        _abort(messages)


class BatchWriter(DataSourceArrowWriter):
    """A `save()` is seen whole or not at all; with `txnAppId` and `txnVersion`, once ever."""

    def __init__(self, schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> None:
        self._options = _checked(schema, options, is_stream=False, overwrite=overwrite)
        self._save_name = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = this_task()
        version = self.version_of(task)
        return Written(version, write_rows(self._options, version, task, iterator))

    def version_of(self, task: Task) -> Version:
        application, number = self._options.application, self._options.version
        if application is None or number is None:
            return Version(f"spark-save-{self._save_name}", 0, self._save_name)
        # In foreachBatch the run is the query's: a driver that was given up is fenced.
        return Version(application, number, task.run_id or self._save_name)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _decide(messages)
        self._forget(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(messages)
        self._forget(messages)

    def _forget(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """A name that nobody gave is never used again."""
        written = _written(messages)
        if self._options.application is not None or not written:
            return
        application = written[0].version.application
        try:
            with Group(written[0].outcome.url) as group:
                group.retire(application)
        except ClientError as error:  # the broker forgets it by itself after a while
            _log.warning("application not retired", application=application, problem=str(error))


def _checked(
    schema: StructType, given: Mapping[str, str], *, is_stream: bool, overwrite: bool = False
) -> SinkOptions:
    """The options; refused together with everything that is wrong about the columns."""
    options, problems = sink_options(given, is_stream=is_stream)
    problems += schema_problems(schema, has_topic=options.topic is not None)
    if overwrite:
        problems.append("mode overwrite: a topic is appended to; say .mode('append')")
    refuse("write to", problems)
    return options


def _decide(messages: Sequence[WriterCommitMessage | None]) -> None:
    """One record on the broker makes everything visible that the tasks wrote."""
    written = _written(messages)
    if not written:
        return  # no task, so nothing was written
    version, outcome = written[0].version, written[0].outcome
    members = [each.outcome.member for each in written if each.outcome.member is not None]
    with hinted(), Group(outcome.url) as group:
        group.decide(version.application, version.number, outcome.run, members)


def _abort(messages: Sequence[WriterCommitMessage | None]) -> None:
    """End what the tasks began, so that readers need not wait for it."""
    written = _written(messages)
    if not written:
        return  # a task that failed has ended its own
    version, outcome = written[0].version, written[0].outcome
    try:
        with Group(outcome.url) as group:
            group.abort(version.application, version.number, outcome.run)
    except ClientError as error:  # why the job failed is what matters; the next run ends these
        _log.warning("attempts not aborted", application=version.application, problem=str(error))


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [each for each in messages if isinstance(each, Written)]
