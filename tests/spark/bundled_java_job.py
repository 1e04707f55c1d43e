"""What `test_bundled_java.py` runs: a session on the Java that the package brings.

python bundled_java_job.py BROKER TOPIC
"""

import sys
from typing import Any

import goqueue.spark


def main(broker: str, topic: str) -> None:
    spark = goqueue.spark.session(master="local[2]")
    context: Any = spark.sparkContext
    frame = (
        spark.read.format("goqueue")
        .option("bootstrap.servers", broker)
        .option("subscribe", topic)
        .load()
    )
    print("JAVA", context._jvm.java.lang.System.getProperty("java.home"))
    print("ROWS", frame.where("offset > 0").count())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
