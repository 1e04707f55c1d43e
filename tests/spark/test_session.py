"""The session that `goqueue.spark.session()` builds."""

import os
import sys

import goqueue.spark


def test_workers_run_on_the_python_that_made_the_session(spark):
    import pyarrow as pa

    def who(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    (row,) = spark.range(1).mapInArrow(who, "python string").collect()
    assert row.python == sys.executable


def test_times_are_utc_and_everything_stays_on_this_machine(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_what_was_said_to_the_jvm_is_not_left_to_others(spark):
    assert "GOQUEUE_SPARK_PUSHDOWN" not in os.environ
    assert "SPARK_HOME" not in os.environ


def test_the_jvm_looks_at_the_bounds_of_what_it_reads(spark):
    checks = spark._jvm.org.apache.arrow.memory.BoundsChecking
    assert checks.BOUNDS_CHECKING_ENABLED


def test_asking_again_gives_the_same_session_with_one_listener(spark):
    publisher = vars(spark)["_goqueue_publisher"]
    again = goqueue.spark.session(master="local[2]", log_level="OFF")
    assert again.sparkContext is spark.sparkContext
    assert vars(again)["_goqueue_publisher"] is publisher


def test_settings_of_the_caller_win(spark):
    again = goqueue.spark.session(
        master="local[2]", settings={"spark.sql.session.timeZone": "Asia/Tokyo"}, log_level="OFF"
    )
    assert again.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    goqueue.spark.session(master="local[2]", log_level="OFF")
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
