"""A broker under measurement: GoQueue as it is installed, or a peer (`kafka.py`)."""

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from bench.process import Failed, Process, Usage

READY_SECONDS_MAX = 300.0
READY_LINE = re.compile(r"GoQueue is ready: kafka=(\S+) http=(\S+)")
API_VERSIONS = struct.Struct(">ihhih")  # length, api key, version, correlation id, no client id


class Broker:
    """Started on a directory of its own, on ports that the machine chose."""

    name: ClassVar[str]
    # By mode of `parts/throughput.py`: the settings of a topic that make brokers comparable.
    topic_settings: ClassVar[dict[str, dict[str, str]]]

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version = "?"
        self.kafka = ""
        self.http = ""
        self.ready_seconds = 0.0
        self._process: Process | None = None

    @property
    def command(self) -> str:
        return " ".join(self._running().argv)

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        self._running().kill()
        self._process = None

    def usage(self) -> Usage:
        return self._running().usage()

    def log_tail(self) -> str:
        return self._running().tail()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _running(self) -> Process:
        if self._process is None:
            raise Failed(f"{self.name} is not running")
        return self._process

    def _wait_until_it_answers(self, process: Process) -> None:
        """The first reply to a Kafka request: the same meaning of ready for every broker."""
        host, port = self.kafka.rsplit(":", 1)
        while not answers(host, int(port)):
            process.demand_alive()
            if time.monotonic() > process.started + READY_SECONDS_MAX:
                raise Failed(f"{self.name} is not ready:\n{process.tail()}")
            time.sleep(0.005)
        self.ready_seconds = time.monotonic() - process.started


class GoQueue(Broker):
    name = "goqueue"
    topic_settings: ClassVar = {
        "acks=1": {},  # synced within a second, by a timer
        "acks=all, fsync": {},
        "acks=all, no fsync": {"flush": "never"},
    }

    def __init__(self, directory: Path, executable: str, arguments: Sequence[str] = ()) -> None:
        super().__init__(directory)
        self._executable = executable
        self._arguments = arguments
        self.facts = installed_facts(executable)
        self.version = str(self.facts["version"])

    def start(self, *, is_plain: bool = True) -> None:
        """A port that speaks TLS is not asked for an answer."""
        argv = [self._executable, "server", "--data-dir", str(self.directory / "data")]
        argv += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0", *self._arguments]
        log = self.directory / "goqueue.log"
        self._process = process = Process(argv, log, env=environment_without_src())
        while not (line := READY_LINE.search(log.read_text(errors="replace"))):
            process.demand_alive()
            if time.monotonic() > process.started + READY_SECONDS_MAX:
                raise Failed(f"goqueue is not ready:\n{process.tail()}")
            time.sleep(0.005)
        self.kafka, self.http = line.groups()
        if is_plain:
            self._wait_until_it_answers(process)


def login_arguments(directory: Path, admin: str, password: str) -> list[str]:
    """For a server that asks who its clients are, and its administrator."""
    directory.mkdir(exist_ok=True)
    file = directory / "password"
    file.write_text(password)
    return ["--auth", "--init-admin", admin, "--set", f"auth.init_admin_password_file={file}"]


def environment_without_src() -> dict[str, str]:
    """The installed package is measured: a source tree on the path would hide it."""
    hidden = ("PYTHONPATH",)
    return {
        name: value
        for name, value in os.environ.items()
        if name not in hidden and not name.startswith("GOQUEUE_")
    }


def installed_goqueue() -> str:
    beside = Path(sys.executable).with_name("goqueue")
    found = str(beside) if beside.exists() else shutil.which("goqueue")
    if found is None:
        raise Failed("there is no goqueue command: run `make bench`, or `pip install .` first")
    return found


def installed_facts(executable: str) -> dict[str, object]:
    """Version, Python, and which modules are compiled."""
    argv = [executable, "--output", "json", "version", "--client"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env=environment_without_src()
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(argv)}: {done.stderr or done.stdout}")
    facts: dict[str, object] = json.loads(done.stdout)
    return facts


def answers(host: str, port: int) -> bool:
    """Whether an ApiVersions request gets a reply."""
    try:
        with socket.create_connection((host, port), timeout=1) as link:
            link.sendall(API_VERSIONS.pack(API_VERSIONS.size - 4, 18, 0, 1, -1))
            return len(link.recv(8)) > 0
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port: int = link.getsockname()[1]
        return port
