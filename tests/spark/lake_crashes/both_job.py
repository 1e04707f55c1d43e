"""Two jobs in one driver that dies when both are at their points: a JVM for two proofs.

python both_job.py SETTINGS-OF-JOB SETTINGS-OF-UPSERT-JOB
"""

import sys
import threading

import msgspec

import goqueue.spark
from goqueue.spark.archive.job import archive
from tests.spark.lake_crashes import job, upsert_job

MEETING_S = 300.0


def main(archived: job.Settings, merged: upsert_job.Settings) -> None:
    meeting = threading.Barrier(2, action=job.die)
    for each in (job, upsert_job):
        setattr(each, "die", lambda: meeting.wait(MEETING_S))  # noqa: B010
    job.arm(archived)
    upsert_job.arm(merged)
    spark = goqueue.spark.session(
        master=archived.master,
        settings={"spark.driver.extraJavaOptions": job.QUICK_TO_COMPILE},
    )
    query = archive(spark, job.options(archived))
    upsert_job.run(spark, merged)
    query.awaitTermination()


if __name__ == "__main__":
    main(
        msgspec.json.decode(sys.argv[1], type=job.Settings),
        msgspec.json.decode(sys.argv[2], type=upsert_job.Settings),
    )
