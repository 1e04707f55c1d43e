"""The broker and the driver, each in a process of its own that may die at any moment."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from goqueue.model.config import Address, Config, HttpConfig, KafkaConfig
from tests.conformance.server import Server

JOB = Path(__file__).with_name("job.py")
JOB_S = 600.0


class Broker:
    """Killed and started again, it comes back with its data, on any ports: proxies look them up.

    Others take a port that is free for a moment.
    """

    def __init__(self, data_dir: Path, advertised: str) -> None:
        self._config = Config(
            data_dir=str(data_dir),
            kafka=KafkaConfig(listen="127.0.0.1:0", advertised=advertised),
            http=HttpConfig(listen="127.0.0.1:0"),
        )
        self._server = Server(self._config)

    @property
    def kafka_address(self) -> Address:
        return _address(self._server.address)

    @property
    def http_address(self) -> Address:
        return _address(self._server.http_address)

    def start(self) -> None:
        server = Server(self._config).start()
        self._server = server

    def kill(self) -> None:
        self._server.kill()

    def kill_and_start(self) -> None:
        self.kill()
        self.start()

    def log(self) -> str:
        return self._server.log()[-3000:]


class Driver:
    """A Spark driver and all that it started; `settings` go to the `job`."""

    def __init__(self, directory: Path, settings: msgspec.Struct, job: Path = JOB) -> None:
        self._settings = settings
        self._job = job
        self._log = directory / "driver.log"
        self._directory = directory
        self._lives: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(os.path.abspath(each) for each in paths if each),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._directory / "workers"),
        }
        with self._log.open("ab") as log:
            self._lives.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-P", str(self._job)),
                        msgspec.json.encode(self._settings).decode(),
                    ],
                    stdout=log,
                    stderr=log,
                    env=environment,
                    cwd=self._directory,
                    start_new_session=True,
                )
            )

    def wait(self, life: int = -1) -> int:
        """How it ended; what it started is left to itself, as it is on a machine somewhere."""
        return self._lives[life].wait(JOB_S)

    def kill(self) -> bool:
        """The JVM, in which the driver is.  Its Python workers find that out by themselves.

        False when there is none: what came by is a worker of an earlier life.
        """
        return self._kill_one("SparkSubmit")

    def freeze(self) -> None:
        """The driver and all that it started, as on a machine that hangs."""
        for pid in _session_members(self._lives[-1].pid):
            _signal(pid, signal.SIGSTOP)

    def thaw(self, life: int) -> None:
        for pid in _session_members(self._lives[life].pid):
            _signal(pid, signal.SIGCONT)

    def kill_executor(self) -> bool:
        """False when none is there just now: what came by is a worker of one that is dead."""
        return self._kill_one("CoarseGrainedExecutorBackend")

    def _kill_one(self, main_class: str) -> bool:
        """The oldest of the newest life: a process that it starts looks like it for a moment."""
        found = [
            pid for pid in _session_members(self._lives[-1].pid) if main_class in _command_line(pid)
        ]
        for pid in sorted(found)[:1]:
            os.kill(pid, signal.SIGKILL)
        return bool(found)

    def end(self) -> None:
        for life in self._lives:
            for pid in _session_members(life.pid):
                _signal(pid, signal.SIGKILL)
            life.wait(JOB_S)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-20_000:]


def _signal(pid: int, number: signal.Signals) -> None:
    """It may be gone by now."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _session_members(session: int) -> list[int]:
    """The processes that a process started, and those that they did."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _session_of(int(entry.name)) == session
    ]


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return -1


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))
