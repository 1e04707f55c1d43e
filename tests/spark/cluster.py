"""A standalone Spark cluster from the pip package: a master and workers, each a process."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyspark

from goqueue.spark.runtime.java import find_java

STOP_S = 20.0
SPARK = Path(str(pyspark.__file__)).parent


class Cluster:
    def __init__(self, folder: Path, workers: int) -> None:
        self._folder = folder
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self._page = 0
        self.master = ""

    def start(self) -> None:
        port, self._page = _free_port(), _free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._run(
            "master",
            *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
            *("--port", str(port), "--webui-port", str(self._page)),
        )
        for number in range(self._workers):
            self._run(
                f"worker-{number}",
                *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
                *("--cores", "1", "--memory", "1g", "--webui-port", "0"),
                *("--work-dir", str(self._folder / f"work-{number}"), self.master),
            )

    @property
    def is_ready(self) -> bool:
        page = f"http://127.0.0.1:{self._page}/json/"
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:
                return bool(json.load(answer)["aliveworkers"] == self._workers)
        except OSError:
            return False

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def submit(
        self, script: Path, *arguments: str, py_files: Path, timeout_s: float
    ) -> "subprocess.CompletedProcess[str]":
        """Run a script by `spark-submit`, with our code sent along as `py_files`."""
        return subprocess.run(
            [
                str(SPARK / "bin" / "spark-submit"),
                *("--master", self.master, "--py-files", str(py_files)),
                *("--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false"),
                *("--conf", "spark.driver.host=127.0.0.1"),
                *(str(script), *arguments),
            ],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment(),
            cwd=self._folder,
            check=False,
        )

    def _run(self, name: str, *arguments: str) -> None:
        with self._log(name) as log:
            process = subprocess.Popen(
                [str(SPARK / "bin" / "spark-class"), *arguments],
                stdout=log,
                stderr=log,
                env=environment(),
                cwd=self._folder,
            )
        self._processes.append(process)

    def _log(self, name: str) -> IO[bytes]:
        return (self._folder / f"{name}.log").open("wb")


def environment() -> dict[str, str]:
    """Of this process, without the way to our sources: they are sent along."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {
        "JAVA_HOME": str(find_java(os.environ).home),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@contextlib.contextmanager
def running_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    cluster = Cluster(folder, workers)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
