"""Processes under measurement: started, watched through /proc, and ended by their own id."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOP_SECONDS_MAX = 120.0


class Usage(msgspec.Struct, frozen=True):
    """What a process has used up so far, and holds now."""

    cpu_seconds: float
    resident_bytes: int
    resident_bytes_peak: int
    open_files: int
    threads: int


class Failed(Exception):
    """A process under measurement did not do what it was started for."""


class Process:
    """A child process whose output goes to a file, for that is never full."""

    def __init__(
        self, argv: Sequence[str], output: Path, *, env: Mapping[str, str] | None = None
    ) -> None:
        self.argv = list(argv)
        self.output = output
        output.parent.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()
        with output.open("wb") as file:
            self._child = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def demand_alive(self) -> None:
        if self._child.poll() is not None:
            raise Failed(f"{self.argv[0]} ended with {self._child.returncode}:\n{self.tail()}")

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def usage(self) -> Usage:
        self.demand_alive()
        directory = Path(f"/proc/{self.pid}")
        # The name in brackets may hold anything; what follows it are numbers.
        fields = (directory / "stat").read_text().rpartition(")")[2].split()
        status = dict(
            line.split(":", 1) for line in (directory / "status").read_text().splitlines()
        )
        return Usage(
            cpu_seconds=(int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND,
            resident_bytes=_kilobytes(status["VmRSS"]),
            resident_bytes_peak=_kilobytes(status["VmHWM"]),
            open_files=len(list((directory / "fd").iterdir())),
            threads=int(status["Threads"]),
        )

    def send(self, number: signal.Signals) -> None:
        if self._child.poll() is None:
            self._child.send_signal(number)

    def stop(self) -> None:
        """Ask it to end, and wait; insist if it does not."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._child.kill()
        self._child.wait()

    def result(self, seconds_max: float) -> str:
        """Wait for its end; what it wrote."""
        try:
            code = self._child.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{self.argv[0]} did not end in {seconds_max} s") from None
        except BaseException:  # the benchmark itself is being ended
            self.kill()
            raise
        if code != 0:
            raise Failed(f"{' '.join(self.argv)}\nended with {code}:\n{self.tail()}")
        return self.output.read_text()


def _kilobytes(text: str) -> int:
    return int(text.split(maxsplit=1)[0]) * 1024
