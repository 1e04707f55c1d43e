"""What `test_connect.py` runs: a client of Spark Connect, without a JVM and without our session.

python connect_job.py sc://HOST:PORT BROKER TOPIC CHECKPOINT
"""

import sys

from pyspark.sql import SparkSession


def main(remote: str, broker: str, topic: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote(remote).getOrCreate()
    options = {"bootstrap.servers": broker, "subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.read.format("goqueue").options(**options).load()
    rows = frame.selectExpr("cast(value as string) v").orderBy("v").collect()
    print("BATCH", *(row.v for row in rows))
    query = (
        spark.readStream.format("goqueue")
        .options(**options)
        .load()
        .writeStream.format("memory")
        .queryName("seen")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("STREAM", spark.table("seen").count())


if __name__ == "__main__":
    main(*sys.argv[1:])
