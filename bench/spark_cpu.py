"""What Spark uses of the processor: its JVM, and the Python workers that the JVM started."""

import contextlib
import os
from pathlib import Path
from typing import Any, NamedTuple

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class SparkCpu(NamedTuple):
    """Seconds since the start, with those of workers that have ended."""

    jvm: float
    workers: float

    @property
    def total(self) -> float:
        return self.jvm + self.workers


def jvm_pid(spark: Any) -> int:
    return int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def spark_cpu(jvm: int) -> SparkCpu:
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            parents[pid] = int(fields[1])
            used[pid] = _seconds(fields[11:13]), _seconds(fields[13:15])
    ours = {jvm}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    own, ended = used[jvm]
    return SparkCpu(own, ended + sum(sum(used[pid]) for pid in ours - {jvm}))


def _seconds(ticks: list[str]) -> float:
    """User and system."""
    return sum(map(int, ticks)) / TICKS_A_SECOND
