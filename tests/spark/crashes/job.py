"""The job that is killed: a Spark driver that copies a topic into another, batch by batch.

    python job.py SETTINGS-AS-JSON

It copies what there is and ends; started again on the same checkpoint, it goes on where it was.
"""

import sys
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import goqueue.spark
from goqueue.spark.sink.group import Version
from goqueue.spark.sink.task import Task
from goqueue.spark.sink.writers import StreamWriter
from goqueue.spark.source.source import GoQueueDataSource

QUICK_TO_COMPILE: Final = "-XX:TieredStopAtLevel=1"  # a job of seconds is over before more pays


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: str
    """`stream`, `shuffled` or `foreach_batch`; to compare with, `forgetful`, a stream without
    de-duplication, and `connector`, which is Spark's own for Kafka."""
    bootstrap: str
    http: str
    source: str
    target: str
    checkpoint: str
    rows_a_batch: int
    master: str = "local[2]"
    jars: tuple[str, ...] = ()


def main(settings: Settings) -> None:
    spark = goqueue.spark.session(
        master=settings.master,
        settings={
            "spark.driver.extraJavaOptions": QUICK_TO_COMPILE,
            "spark.executor.extraJavaOptions": QUICK_TO_COMPILE,
            "spark.executor.memory": "512m",
        },
    )
    started(settings, spark).awaitTermination()
    spark.stop()


def started(settings: Settings, spark: SparkSession) -> Any:
    """The query that copies."""
    rows = (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", settings.bootstrap)
        .option("subscribe", settings.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.rows_a_batch)
        .option("minPartitions", 2)
        .load()
        .select("key", "value")
    )
    return written(settings, spark, rows)


def written(settings: Settings, spark: SparkSession, rows: DataFrame) -> Any:
    target = {
        "bootstrap.servers": settings.bootstrap,
        "goqueue.http": settings.http,
        "topic": settings.target,
    }
    if settings.kind == "shuffled":  # rows meet in another order each time
        rows = rows.repartition(3)
    writing = rows.writeStream.option("checkpointLocation", settings.checkpoint).trigger(
        availableNow=True
    )
    if settings.kind == "foreach_batch":

        def save(batch: DataFrame, batch_id: int) -> None:
            version = {"txnAppId": "copy", "txnVersion": str(batch_id)}
            batch.write.format("goqueue").options(**target, **version).mode("append").save()

        return writing.foreachBatch(save).start()
    if settings.kind == "connector":
        for jar in settings.jars:
            spark.sql(f"add jar '{jar}'")
        server = {"kafka.bootstrap.servers": settings.bootstrap, "topic": settings.target}
        return writing.format("kafka").options(**server).start()
    if settings.kind == "forgetful":
        spark.dataSource.register(ForgetfulDataSource)
        return writing.format(ForgetfulDataSource.name()).options(**target).start()
    return writing.format("goqueue").options(**target).start()


# --- the control ----------------------------------------------------------------------------------


class ForgetfulWriter(StreamWriter):
    """Every run of the query is an application of its own, so nobody knows what is decided."""

    def version_of(self, task: Task) -> Version:
        version = super().version_of(task)
        return msgspec.structs.replace(version, application=version.run_name)


class ForgetfulDataSource(GoQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "forgetful"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        return ForgetfulWriter(schema, self.options)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Settings))
