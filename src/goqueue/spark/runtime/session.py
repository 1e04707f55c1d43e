"""Sessions: Spark set up so that it starts quickly, stays on this machine, and knows topics.

Everything that must be said before the JVM is there is said here: which Java, which Python for the
workers (another one than ours is the usual reason why workers "fail to connect back"), addresses,
time zone, and what makes a start quick.  Under `spark-submit` the JVM is there already and has its
master; then only what can still be said is.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from goqueue.spark.runtime.connect import connect, is_connect
from goqueue.spark.runtime.java import find_java, startable
from goqueue.spark.runtime.listener import OffsetPublisher
from goqueue.spark.runtime.noise import sift_output
from goqueue.spark.runtime.quickstart import QuickStart, cache, quick_start
from goqueue.spark.source.options import CORES_VARIABLE, PUSHDOWN_VARIABLE
from goqueue.spark.source.source import GoQueueDataSource

LOCAL: Final = "local[*]"
SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for the script that it runs
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
OUR_JAVA_OPTIONS: Final = ("-XX:+UseParallelGC",)

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.buffer.size": "1048576",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# What Spark remembers for its UI, of jobs that have ended: nobody sees it where that is off.
WITHOUT_UI: Final = {
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
}
LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.python.daemon.module": "goqueue.spark.runtime.daemon",
}


def build(
    *, app_name: str, master: str | None, settings: Mapping[str, str], log_level: str
) -> SparkSession:
    """The session: a new one, or the one there is with these settings."""
    if master is not None and is_connect(master):
        return connect(master, app_name=app_name, settings=settings)
    chosen = dict(SETTINGS)
    if settings.get("spark.ui.enabled") != "true":
        chosen |= WITHOUT_UI
    builder = SparkSession.builder.appName(app_name)
    if master is None and SUBMITTED not in os.environ:
        master = LOCAL
    if master is not None:
        builder = builder.master(master)
        if is_local(master):
            chosen |= LOCAL_SETTINGS | {"spark.sql.shuffle.partitions": str(_cores())}
    with _launch_environment(master) as quick:
        java_options = _java_options(quick, settings)
        if java_options:
            chosen[JAVA_OPTIONS] = java_options
        for name, value in (chosen | _without_java_options(settings)).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        if quick is not None:
            quick.note_started(_class_path(spark))
    spark.sparkContext.setLogLevel(log_level)
    if SUBMITTED in os.environ:
        _register(spark)
    OffsetPublisher.attach(spark)
    return spark


def _register(spark: SparkSession) -> None:
    """Spark finds the format by itself where it is installed, but not in what --py-files brought.

    Nor do the processes that plan streams: they are given the path that this one has.
    """
    spark.sparkContext.environment.setdefault("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    spark.dataSource.register(GoQueueDataSource)


def _class_path(spark: SparkSession) -> str:
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "the session has just been made"
    return str(jvm.java.lang.System.getProperty("java.class.path"))


def is_local(master: str) -> bool:
    return master.split("[", maxsplit=1)[0] == "local"


def _cores() -> int:
    return max(2, os.cpu_count() or 2)


def cores_of(master: str | None) -> int | None:
    """How many tasks a local master runs at a time; None where others run them."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master or "")
    if found is None:
        return None
    match found[1]:
        case None:
            return 1
        case "*":
            return os.cpu_count() or 1
        case count:
            return int(count)


def _without_java_options(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name != JAVA_OPTIONS}


def _java_options(quick: QuickStart | None, settings: Mapping[str, str]) -> str:
    """Ours first: the last word of two that contradict each other is the caller's."""
    ours = quick.java_options() if quick is not None else []
    return " ".join([*OUR_JAVA_OPTIONS, *ours, settings.get(JAVA_OPTIONS, "")]).strip()


@contextlib.contextmanager
def _launch_environment(master: str | None) -> Iterator[QuickStart | None]:
    """What a JVM that is started inside inherits; some of it is only for that one."""
    if SparkContext._gateway is not None or SUBMITTED in os.environ:
        yield None  # there is a JVM, and it has its environment
        return
    java = find_java(os.environ)
    os.environ["JAVA_HOME"] = str(startable(java, cache(os.environ) / f"java-{java.version}"))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master is not None and is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    quick = None
    if "SPARK_HOME" not in os.environ:
        quick = quick_start(java, Path(_find_spark_home()), pyspark.__version__, os.environ)
    inherited = {PUSHDOWN_VARIABLE: "true"}
    if (cores := cores_of(master)) is not None:
        inherited[CORES_VARIABLE] = str(cores)
    if quick is not None:
        inherited["SPARK_HOME"] = str(quick.home)
    os.environ.update(inherited)
    try:
        with sift_output():
            yield quick
    finally:
        for name in inherited:
            os.environ.pop(name, None)
