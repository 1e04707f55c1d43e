"""What `test_cluster.py` submits: reads a topic, copies it by a stream, and says who did it.

spark-submit … cluster_job.py BROKER SOURCE TARGET CHECKPOINT
"""

import json
import os
import sys

import pyarrow as pa

import goqueue.spark


def main(broker: str, source: str, target: str, checkpoint: str) -> None:
    spark = goqueue.spark.session(app_name="cluster-job")
    options = {"bootstrap.servers": broker, "subscribe": source, "startingOffsets": "earliest"}
    frame = spark.read.format("goqueue").options(**options, minPartitions="6").load()
    readers = frame.mapInArrow(where_it_ran, "folder string, code string").distinct().collect()
    query = (
        spark.readStream.format("goqueue")
        .options(**options, maxOffsetsPerTrigger="600", minPartitions="2")
        .load()
        .select("key", "value", "partition")
        .writeStream.format("goqueue")
        .option("bootstrap.servers", broker)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]
    found = {
        "rows": frame.count(),
        "folders": sorted({row.folder for row in readers}),
        "code": sorted({row.code for row in readers}),
        "batches": batches,
    }
    print("RESULT " + json.dumps(found))
    spark.stop()


def where_it_ran(batches):
    for batch in batches:
        folder, code = os.getcwd(), str(goqueue.spark.__file__)
        yield pa.RecordBatch.from_pydict(
            {"folder": [folder] * batch.num_rows, "code": [code] * batch.num_rows}
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
