"""A session and some work of each kind, for the archive of classes that the JVM writes at its end.

python first_job.py FOLDER
"""

import sys

import goqueue.spark


def main(folder: str) -> None:
    spark = goqueue.spark.session(master="local[2]")
    rows = f"{folder}/rows"
    spark.range(10).selectExpr("id % 2 as kind", "id").groupBy("kind").count().write.parquet(rows)
    query = (
        spark.readStream.schema("kind bigint, count bigint")
        .parquet(rows)
        .writeStream.foreachBatch(lambda batch, _: batch.write.format("noop").mode("append").save())
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
