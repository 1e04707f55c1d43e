"""The broker and the commands of the demo, each a process of its own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

COMMAND: Final = (sys.executable, "-P", "-c", "from goqueue.cli.main import main; main()")
ADDRESSES: Final = re.compile(r"kafka=(\S+).*?http=(\S+)")
STOP_SECONDS: Final = 60.0


class Failed(Exception):
    """Something in the demo did not go as it should."""


class Broker:
    """A broker on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "broker.log").open("w")
        arguments = ["server", "--data-dir", str(folder / "broker"), "--log-level", "warning"]
        arguments += ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        self._process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        line = wait_for_line(self._process, self._log, "broker")
        found = ADDRESSES.search(line)
        if found is None:
            raise Failed(f"the broker did not start: {line}")
        self.kafka, self.http = found[1], found[2]

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(STOP_SECONDS)
        self._log.close()


def wait_for_line(process: "subprocess.Popen[str]", log: IO[str], what: str) -> str:
    """The first that a server prints, which says where it is; raises `Failed`."""
    assert process.stdout is not None, "it is a pipe"
    line = process.stdout.readline()
    if not line:
        raise Failed(f"the {what} did not start: {Path(log.name).read_text()[-2000:]}")
    return line


class Job:
    """A `goqueue pipeline` command whose progress is read line by line."""

    def __init__(self, *arguments: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "pipeline", *arguments, "--output", "json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,  # so that what belongs to it can be killed with it
        )

    def reports(self) -> Iterator[dict[str, Any]]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)

    def kill(self) -> None:
        """With its Java and Python workers, in the middle of whatever they do."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.finished()

    def finished(self) -> str:
        """What it wrote at last; raises `Failed` with its own words."""
        output, errors = self._process.communicate(timeout=STOP_SECONDS * 10)
        if self._process.returncode:
            raise Failed(errors.strip() or f"it ended with code {self._process.returncode}")
        return output
