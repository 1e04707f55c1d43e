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
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from goqueue.spark.runtime.garbage import freeze_gc
from goqueue.spark.sink.attempt import Outcome, write_rows
from goqueue.spark.sink.checkpoint import query_id
from goqueue.spark.sink.ending import Report, abort, decide, http_url, retire
from goqueue.spark.sink.group import Version
from goqueue.spark.sink.hints import add_hints
from goqueue.spark.sink.options import SinkOptions, sink_options
from goqueue.spark.sink.schema import schema_problems
from goqueue.spark.sink.task import Task, this_task
from goqueue.spark.sink.values import ValuePlan, find_plan
from goqueue.spark.source.option_texts import refuse

Messages = Sequence[WriterCommitMessage | None]
"""One for each task; None for one that failed."""


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    version: Version
    outcome: Outcome


class StreamWriter(DataSourceStreamArrowWriter):
    """Each micro-batch is a version of its query."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._options = _check(schema, options, is_stream=True)
        self._values = _value_plan(schema, self._options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = this_task()
        version = self.version_of(task)
        rows = iterator if self._values is None else self._values.apply(iterator)
        return _write_result(self._options, version, task, rows)

    def version_of(self, task: Task) -> Version:
        assert task.query_id is not None, "a stream's task belongs to a query"
        assert task.batch_id is not None, "and to a micro-batch"
        application = self._options.application_of(task.query_id)
        return Version(application, task.batch_id, task.run_id or task.query_id)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803  # Spark's name
        decide(_reports(messages), self._options)
        freeze_gc()

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803  # Spark's name
        # If all tasks were killed, as by `query.stop()`, only the checkpoint says whose they were.
        location = self._options.checkpoint
        query = query_id(location) if location is not None else None
        application = self._options.application_of(query) if query is not None else None
        abort(_reports(messages), self._options, application, batchId)


class BatchWriter(DataSourceArrowWriter):
    """A `save()` is seen whole or not at all; with `txnAppId` and `txnVersion`, once ever."""

    def __init__(self, schema: StructType, options: Mapping[str, str], *, overwrite: bool) -> None:
        self._options = _check(schema, options, is_stream=False, overwrite=overwrite)
        self._values = _value_plan(schema, self._options)
        self._save_name = uuid.uuid4().hex
        self._has_name = self._options.application is not None
        self._application = self._options.application_of(
            self._options.application or f"spark-save-{self._save_name}"
        )
        self._number = self._options.version or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = this_task()
        version = self.version_of(task)
        rows = iterator if self._values is None else self._values.apply(iterator)
        return _write_result(self._options, version, task, rows)

    def version_of(self, task: Task) -> Version:
        # In foreachBatch the run is the query's: a driver that was given up is fenced.
        return Version(self._application, self._number, task.run_id or self._save_name)

    def commit(self, messages: Messages) -> None:
        decide(_reports(messages), self._options)
        self._end(messages)
        freeze_gc()

    def abort(self, messages: Messages) -> None:
        abort(_reports(messages), self._options, self._application, self._number)
        self._end(messages)

    def _end(self, messages: Messages) -> None:
        if not self._has_name:
            retire(_reports(messages), self._options)


def _write_result(
    options: SinkOptions, version: Version, task: Task, batches: Iterator[pa.RecordBatch]
) -> Written:
    outcome = write_rows(options, version, task, batches)
    freeze_gc()
    return Written(version, outcome)


def _check(
    schema: StructType, given: Mapping[str, str], *, is_stream: bool, overwrite: bool = False
) -> SinkOptions:
    """The options; refused together with everything that is wrong about the columns."""
    options, problems = sink_options(given, is_stream=is_stream)
    problems += schema_problems(
        schema, has_topic=options.topic is not None, is_typed=options.values is not None
    )
    if overwrite:
        problems.append("mode overwrite: a topic is appended to; say .mode('append')")
    refuse("write to", problems)
    freeze_gc()  # the process that plans writes, a micro-batch after the other, does nothing else
    return options


def _value_plan(schema: StructType, options: SinkOptions) -> ValuePlan | None:
    if options.values is None:
        return None
    with add_hints():
        return find_plan(
            options.values,
            schema["value"].dataType,
            topic=options.topic,
            url=http_url(options),
            timeout_ms=options.timeout_ms,
            login=options.login,
        )


def _reports(messages: Messages) -> list[Report]:
    return [(each.version, each.outcome) for each in messages if isinstance(each, Written)]
