"""A broker in a process of its own, in a hurry: groups form at once and dead members soon expire.

Its port stays the same over a kill and a restart, so that clients find it again.
"""

import functools
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

READY = re.compile(r"GoQueue is ready: kafka=(\S+) ")
READY_SECONDS_MAX = 30.0
SESSION_MS = 2_500
HEARTBEAT_MS = 200
SETTINGS = {
    "groups.initial_rebalance_delay_ms": 0,
    "groups.session_timeout_ms": SESSION_MS,
    "groups.session_timeout_ms_min": 500,
    "groups.heartbeat_interval_ms": HEARTBEAT_MS,
}


class GroupServer:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._child: subprocess.Popen[bytes] | None = None
        self._topics = 0
        self.address = "127.0.0.1:0"
        self.start()

    def start(self) -> None:
        output = self._directory / "output"
        argv = [sys.executable, "-P", "-c", "from goqueue.cli.main import main; main()", "server"]
        argv += ["--data-dir", str(self._directory / "data"), "--kafka", self.address]
        argv += ["--http", "127.0.0.1:0", "--log-level", "warning"]
        for name, value in SETTINGS.items():
            argv += ["--set", f"{name}={value}"]
        with output.open("wb") as file:
            self._child = subprocess.Popen(argv, stdout=file, stderr=file, env=_environment())
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not (ready := READY.search(output.read_text(errors="replace"))):
            assert self._child.poll() is None, output.read_text(errors="replace")
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        self.address = ready.group(1)

    def kill(self) -> None:
        """kill -9: nothing is written, nobody is told."""
        assert self._child is not None
        self._child.kill()
        self._child.wait()

    def stop(self) -> None:
        assert self._child is not None
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            self._child.wait(30)

    def errors(self) -> str:
        """What the server complained of."""
        output = (self._directory / "output").read_text(errors="replace")
        return "\n".join(line for line in output.splitlines() if "GoQueue is ready" not in line)

    # --- topics and messages -------------------------------------------------------------------

    @functools.cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address})

    def topic(self, partitions: int = 4, *, prefix: str = "topic") -> str:
        """A new topic."""
        self._topics += 1
        name = f"{prefix}-{self._topics}"
        (created,) = self.admin.create_topics([NewTopic(name, partitions)]).values()
        created.result()
        return name

    def fill(self, topic: str, count: int, partitions: int = 4, *, start: int = 0) -> None:
        """Messages `start` to `start + count`, dealt to the partitions in turn."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 1})
        for number in range(start, start + count):
            producer.produce(topic, str(number).encode(), partition=number % partitions)
        assert producer.flush(20) == 0


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
