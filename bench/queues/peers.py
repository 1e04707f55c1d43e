"""Peers: RabbitMQ and NATS JetStream, fetched into a cache if they can be had.

Both make a message durable before they confirm it, and deliver until a consumer acks: RabbitMQ as a
durable classic queue with persistent messages, publisher confirms and manual acks; JetStream as a
work queue on file that is synced always, with publish acks and explicit acks.  The load comes from
`native/queuepeers`, a Go program on their own client libraries, which leaves them more of the
machine than our Python clients leave to GoQueue.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from bench.brokers import free_port
from bench.kafka import cache_directory
from bench.process import Failed, Process, Usage
from bench.queues.crew import Figures, Options, figures

FETCH_SECONDS_MAX = 600
READY_SECONDS_MAX = 60.0
LOAD_SECONDS_MAX = 180.0
NATS_MODULE = "github.com/nats-io/nats-server/v2@latest"
LOAD_SOURCE = Path(__file__).parents[1] / "native" / "queuepeers"


class Missing(Exception):
    """The peer cannot be had here; says why."""


def _run(argv: list[str], **options: Any) -> None:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=FETCH_SECONDS_MAX, check=False, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        raise Missing(f"{' '.join(argv[:4])}: {(done.stderr or done.stdout).strip()[-300:]}")


class Peer:
    """Started on a directory of its own."""

    name: ClassVar[str]
    program: ClassVar[str]  # what the load program calls it
    share: ClassVar[float] = 1.0  # of the messages: a slow one need not take minutes

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: Process | None = None

    def start(self) -> None:
        raise NotImplementedError

    @property
    def url(self) -> str:
        raise NotImplementedError

    def measured(self, options: Options) -> Figures:
        """Publish and work off at the same time, until every message was acked."""
        load = _load_program()
        options = msgspec.structs.replace(options, messages=int(options.messages * self.share))
        try:
            self.start()
            argv = [load, "-peer", self.program, "-url", self.url, *_flags(options)]
            running = Process(argv, self.directory / "load.log")
            while "ready" not in running.output.read_text() and _is_running(running):
                time.sleep(0.01)
            before = self.usage()
            output = running.result(LOAD_SECONDS_MAX)
            after = self.usage()
        finally:
            self.stop()
        told: dict[str, Any] = json.loads(output.splitlines()[-1])
        seconds, own, doubles = told["seconds"], told["cpu_seconds"], told["doubles"]
        latency_ms = told["latency_ms"]
        return figures(self.name, options, seconds, before, after, own, doubles, latency_ms)

    def usage(self) -> Usage:
        assert self._process is not None
        return self._process.usage()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _wait(self) -> None:
        assert self._process is not None
        while True:
            with socket.socket() as link:
                if link.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            self._process.demand_alive()
            if time.monotonic() > self._process.started + READY_SECONDS_MAX:
                raise Failed(f"{self.name} is not ready:\n{self._process.tail()}")
            time.sleep(0.05)


# --- NATS JetStream -------------------------------------------------------------------------------


class Nats(Peer):
    name = "nats"
    program = "nats"
    share = 0.1
    sync_interval: ClassVar[str] = "always"

    def start(self) -> None:
        executable = _nats_server()
        settings = self.directory / "nats.conf"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(
            f"listen: 127.0.0.1:{self.port}\n"
            f'jetstream {{ store_dir: "{self.directory}/store"\n'
            f"  sync_interval: {self.sync_interval} }}\n"
        )
        self._process = Process(
            [executable, "-c", str(settings)], self.directory / "nats.log", env=dict(os.environ)
        )
        self._wait()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"


class UnsyncedNats(Nats):
    """As JetStream is when nothing is said: a power cut takes the last two minutes."""

    name = "nats-unsynced"
    share = 1.0
    sync_interval = '"2m"'


def _nats_server() -> str:
    found = shutil.which("nats-server")
    if found:
        return found
    place = cache_directory() / "go"
    built = place / "nats-server"
    if not built.exists():
        if shutil.which("go") is None:
            raise Missing("neither nats-server nor go is installed")
        place.mkdir(parents=True, exist_ok=True)
        _run(["go", "install", NATS_MODULE], env={**os.environ, "GOBIN": str(place)})
    return str(built)


# --- RabbitMQ -------------------------------------------------------------------------------------


class RabbitMq(Peer):
    name = "rabbitmq"
    program = "rabbitmq"
    share = 0.4

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._names: Process | None = None  # Erlang's name server

    def start(self) -> None:
        executable, variables = _rabbitmq_server()
        names_port = str(free_port())
        path = variables.get("PATH", os.environ.get("PATH", ""))
        epmd = shutil.which("epmd", path=path)
        if epmd is None:
            raise Missing("there is no epmd")
        argv = [epmd, "-port", names_port, "-address", "127.0.0.1"]
        self._names = Process(argv, self.directory / "epmd.log", env=dict(os.environ))
        home = self.directory / "rabbitmq"
        home.mkdir(parents=True, exist_ok=True)
        settings = home / "rabbitmq.conf"
        settings.write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        plugins = home / "enabled_plugins"
        plugins.write_text("[].\n")
        environment = {
            **os.environ,
            **variables,
            "HOME": str(home),
            "ERL_EPMD_PORT": names_port,
            "ERL_CRASH_DUMP": str(home / "crash.dump"),
            "RABBITMQ_NODENAME": f"bench{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        }
        self._process = Process([executable], self.directory / "rabbitmq.log", env=environment)
        self._wait()

    def stop(self) -> None:
        """Debian's script does not pass the signal on to Erlang's machine."""
        started = [] if self._process is None else _descendants(self._process.pid)
        super().stop()
        for pid in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._names is not None:
            self._names.stop()

    def usage(self) -> Usage:
        """Of Erlang's machine, which the start script waits for or becomes."""
        assert self._process is not None
        family = [self._process.pid, *_descendants(self._process.pid)]
        found = max(family, key=_cpu_ticks)
        return _usage(found)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"


def _rabbitmq_server() -> tuple[str, dict[str, str]]:
    """Installed, or Debian's packages unpacked in the cache."""
    found = shutil.which("rabbitmq-server")
    if found:
        return found, {}
    place = cache_directory() / "rabbitmq"
    if not (place / "usr/lib/erlang").exists():
        _unpack_rabbitmq(place)
    scripts = sorted(place.glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"))
    if not scripts:
        raise Missing("Debian's package holds no rabbitmq-server")
    (machine,) = place.glob("usr/lib/erlang/erts-*/bin")
    path = f"{place}/usr/lib/erlang/bin:{machine}:{os.environ.get('PATH', '')}"
    return str(scripts[-1]), {"PATH": path, "RABBITMQ_HOME": str(scripts[-1].parents[1])}


def _unpack_rabbitmq(place: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Missing("there is neither rabbitmq-server nor apt-get")
    packages = place / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    wanted = ["apt-get", "install", "--simulate", "--no-install-recommends", "rabbitmq-server"]
    plan = subprocess.run(wanted, capture_output=True, text=True, check=False).stdout
    names = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    needed = [
        name for name in names if name.startswith(("erlang", "rabbitmq", "libsctp", "libodbc"))
    ]
    if "rabbitmq-server" not in needed:
        raise Missing("apt-get knows no rabbitmq-server")
    _run(["apt-get", "download", *needed], cwd=packages)
    for package in packages.glob("*.deb"):
        _run(["dpkg", "-x", str(package), str(place)])
    for script in (place / "usr/lib/erlang/bin").iterdir():
        if script.is_file() and not script.is_symlink():
            _move_root(script, f"{place}/usr/lib/erlang")


def _move_root(script: Path, root: str) -> None:
    content = script.read_bytes()
    if content.startswith(b"#!") and b"/usr/lib/erlang" in content and root.encode() not in content:
        script.write_bytes(content.replace(b"/usr/lib/erlang", root.encode()))


# --- the load -------------------------------------------------------------------------------------


def _load_program() -> str:
    """Compiled into the cache, again when its source has changed."""
    built = cache_directory() / "go" / "queuepeers"
    sources = list(LOAD_SOURCE.iterdir())
    if built.exists() and built.stat().st_mtime > max(each.stat().st_mtime for each in sources):
        return str(built)
    if shutil.which("go") is None:
        raise Missing("go is not installed, which the load program needs")
    built.parent.mkdir(parents=True, exist_ok=True)
    _run(["go", "build", "-o", str(built), "."], cwd=LOAD_SOURCE)
    return str(built)


def _flags(options: Options) -> list[str]:
    names = ("messages", "size", "batch", "publishers", "workers", "rate")
    return [f"-{name}={getattr(options, name)}" for name in names]


def _is_running(process: Process) -> bool:
    try:
        process.demand_alive()
    except Failed:
        return False  # `result` says why
    return True


# --- processes that are not our children ----------------------------------------------------------


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found += [child, *_descendants(child)]
    return found


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _usage(pid: int) -> Usage:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return Usage(
        cpu_seconds=_cpu_ticks(pid) / os.sysconf("SC_CLK_TCK"),
        resident_bytes=int(status["VmRSS"].split()[0]) * 1024,
        resident_bytes_peak=int(status["VmHWM"].split()[0]) * 1024,
        open_files=0,
        threads=int(status["Threads"]),
    )
