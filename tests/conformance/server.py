"""A real server for real clients, in a process of its own."""

import subprocess
import sys
import threading
from pathlib import Path

import msgspec

from goqueue.model.config import Config, KafkaConfig

NODE = Path(__file__).with_name("node.py")
START_S = 60.0
STOP_S = 60.0


class Server:
    """`start`, `stop` and `kill` as often as wanted: the data and the address stay the same."""

    def __init__(self, config: Config, node: Path = NODE) -> None:
        self._config = config
        self._node = node
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = Path(config.data_dir) / "stderr"
        self.address = ""
        self.http_address = ""

    @property
    def bootstrap(self) -> dict[str, str]:
        """As librdkafka's settings have it."""
        return {"bootstrap.servers": self.address}

    @property
    def data_dir(self) -> str:
        return self._config.data_dir

    @property
    def host_and_port(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host, int(port)

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "Server":
        self._errors.parent.mkdir(parents=True, exist_ok=True)
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(self._node), msgspec.json.encode(self._config).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.address, self.http_address = self._first_line().split()
        self._config = _listening_on(self._config, self.address)
        return self

    def _first_line(self) -> str:
        assert self.process.stdout is not None
        watchdog = threading.Timer(START_S, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline().decode().strip()
        watchdog.cancel()
        assert line, f"the server did not start:\n{self.log()}"
        return line

    def stop(self) -> None:
        """In good order."""
        if self._process is not None:
            self._process.communicate(timeout=STOP_S)
            assert self._process.returncode == 0, self.log()
            self._process = None

    def kill(self) -> None:
        """As a power cut would, for the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=STOP_S)
            self._process = None

    def log(self) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (kilobytes,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        return int(kilobytes) * 1024


def _listening_on(config: Config, address: str) -> Config:
    kafka: KafkaConfig = msgspec.structs.replace(config.kafka, listen=address)
    return msgspec.structs.replace(config, kafka=kafka)
