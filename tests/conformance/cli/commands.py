"""`goqueue` as a command, and a server that it started."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from typer.testing import Result

COMMAND = [sys.executable, "-P", "-m", "goqueue"]
READY = re.compile(r"GoQueue is ready: kafka=(\S+) http=(http://\S+)")
START_S = 20.0
Run = Callable[..., Result]


class RunningServer:
    """`goqueue server` on free ports; known by the line it prints."""

    def __init__(
        self, directory: Path, *flags: str, variables: Mapping[str, str] | None = None
    ) -> None:
        self._log = directory / "stderr"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "server", "--data-dir", str(directory / "data"), *flags],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**environment(), **(variables or {})},
            )
        found = READY.fullmatch(self._first_line().strip())
        assert found, self._log.read_text()
        self.kafka, self.url = found.groups()

    def _first_line(self) -> str:
        assert self.process.stdout is not None
        watchdog = threading.Timer(START_S, self.process.kill)
        watchdog.start()
        try:
            return self.process.stdout.readline()
        finally:
            watchdog.cancel()

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(20)

    def log(self) -> str:
        return self._log.read_text()


def environment() -> dict[str, str]:
    """This one's, without settings of whoever runs the tests."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("GOQUEUE_")}
    return {**kept, "GOQUEUE_CONFIG": os.devnull}


FREE_PORTS = ("--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0")


def decoded(done: Result) -> Any:
    return msgspec.json.decode(done.stdout)
