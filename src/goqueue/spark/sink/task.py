"""What Spark tells a task about itself."""

import msgspec
from pyspark import TaskContext

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"  # a streaming query's jobs are grouped by the id of its run


class Task(msgspec.Struct, frozen=True):
    number: int
    attempt: int
    """No two attempts of a Spark application have the same."""
    query_id: str | None = None
    batch_id: int | None = None
    run_id: str | None = None
    """Of a streaming query: a new one each time that it is started."""


def this_task() -> Task:
    context = TaskContext.get()
    assert context is not None, "only a task writes"
    number, attempt = context.partitionId(), context.taskAttemptId()
    query_id = context.getLocalProperty(QUERY_ID)
    if not query_id:
        return Task(number, attempt)
    batch_id = context.getLocalProperty(BATCH_ID)
    return Task(
        number,
        attempt,
        query_id,
        int(batch_id) if batch_id else None,
        context.getLocalProperty(RUN_ID) or None,
    )
