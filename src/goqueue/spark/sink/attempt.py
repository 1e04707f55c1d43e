"""One attempt at one task: its rows become record batches of a transaction of its own."""

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Final

import msgspec
import pyarrow as pa
import structlog

from goqueue.client.errors import ClientError
from goqueue.client.http.calls.transactions import Member
from goqueue.client.kafka import KafkaClient
from goqueue.spark.columns import Encoder
from goqueue.spark.sink.ages import Ages
from goqueue.spark.sink.group import Group, Version
from goqueue.spark.sink.hints import add_hints
from goqueue.spark.sink.options import SinkOptions
from goqueue.spark.sink.pipeline import Pipeline
from goqueue.spark.sink.task import Task

CLIENT_ID: Final = "goqueue-spark-sink"
CHUNK_BYTES: Final = 4 * 1024 * 1024  # of rows encoded at once: larger record batches, fewer calls

_log = structlog.get_logger("goqueue.spark")


class Outcome(msgspec.Struct, frozen=True):
    """What a task tells the driver."""

    url: str
    """Where to decide."""
    run: int
    member: Member | None = None
    """The transaction to commit; None when nothing was written."""
    rows: int = 0
    """Also of those that were written before, and are not written again."""
    bytes: int = 0
    oldest: dict[str, int] = {}
    """For each topic the newest time in its oldest batch, in milliseconds."""


def write_rows(
    options: SinkOptions, version: Version, task: Task, batches: Iterator[pa.RecordBatch]
) -> Outcome:
    """Write a task's rows, unless the version is decided: then they are only counted."""
    with (
        add_hints(),
        connect(options) as kafka,
        Group(options.http or kafka.http_url(), options.timeout_ms, options.login) as group,
    ):
        run = group.start_run(version)
        start = partial(
            group.start_attempt,
            version,
            run.run,
            task=task.number,
            attempt=task.attempt,
            timeout_ms=options.transaction_timeout_ms,
        )
        outcome = Outcome(group.url, run.run)
        # Asked for an attempt, the broker tells a repetition from a version that goes back.
        if version.number <= run.last_version and start() is None:
            return _count(outcome, batches)
        chunks = _chunks(batches)
        first = next(chunks, None)
        if first is None:
            return outcome
        member = start()
        if member is None:
            return _count(outcome, chain([first], chunks))
        with _give_up_when_broken(group, member):
            return _write(options, kafka, task, outcome, member, chain([first], chunks))


def _count(outcome: Outcome, batches: Iterable[pa.RecordBatch]) -> Outcome:
    """The driver compares the number with that of the first time."""
    return msgspec.structs.replace(outcome, rows=sum(each.num_rows for each in batches))


def connect(options: SinkOptions) -> KafkaClient:
    return KafkaClient(
        options.bootstrap,
        client_id=CLIENT_ID,
        timeout_s=options.timeout_ms / 1000,
        login=options.login,
    )


def _write(
    options: SinkOptions,
    kafka: KafkaClient,
    task: Task,
    outcome: Outcome,
    member: Member,
    chunks: Iterable[pa.RecordBatch],
) -> Outcome:
    encoder = Encoder(
        options.topic,
        PartitionCounts(kafka),
        options.compression,
        options.batch_bytes,
        message_bytes_max=options.message_bytes_max,
        first_partition=task.number,
    )
    ages = Ages()
    with (
        # A client of its own: it is used by another thread than the one that looks topics up.
        connect(options) as sender,
        Pipeline(sender, member) as pipeline,
    ):
        for chunk in chunks:
            pipeline.write(ages.watch(encoder.encode(chunk)))
        pipeline.flush()
        return msgspec.structs.replace(
            outcome,
            member=member,
            rows=pipeline.rows,
            bytes=pipeline.bytes,
            oldest=ages.oldest,
        )


@contextlib.contextmanager
def _give_up_when_broken(group: Group, member: Member) -> Iterator[None]:
    """Readers wait for an open transaction: one that will not be committed ends at once."""
    try:
        yield
    except BaseException:
        try:
            group.give_up(member)
        except ClientError as error:  # its time will run out, or the next run ends it
            _log.warning("attempt not aborted", attempt=member.transactional_id, problem=str(error))
        raise


class PartitionCounts:
    """How many partitions a topic has; looked up once a topic."""

    def __init__(self, kafka: KafkaClient) -> None:
        self._kafka = kafka
        self._known: dict[str, int] = {}

    def __call__(self, topic: str) -> int:
        count = self._known.get(topic)
        if count is None:
            layout = self._kafka.metadata([topic], creates=True)[topic]
            count = self._known[topic] = layout.partition_count
        return count


def _chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, in pieces of a good size."""
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        waiting.append(batch)
        waiting_bytes += batch.nbytes
        if waiting_bytes >= CHUNK_BYTES:
            yield _join(waiting)
            waiting, waiting_bytes = [], 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
