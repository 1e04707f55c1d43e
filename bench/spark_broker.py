"""The broker of the Spark benches: the same package that they run themselves, installed or not."""

import os
import re
import subprocess
import sys
from pathlib import Path

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
READY = re.compile(r"GoQueue is ready: kafka=(\S+)")


class Broker:
    def __init__(self, directory: Path) -> None:
        with (directory / "stderr").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "goqueue", "server"),
                    *("--data-dir", str(directory / "data")),
                    *("--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"),
                ],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        found = READY.match(self._process.stdout.readline())
        assert found, (directory / "stderr").read_text()
        self.address = found[1]

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(20)
