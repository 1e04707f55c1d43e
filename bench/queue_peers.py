"""Peers for `bench.queues`: RabbitMQ and NATS JetStream, fetched into a cache if they can be had.

Both make a message durable before they confirm it, and deliver until a consumer acks: RabbitMQ as a
durable classic queue with persistent messages, publisher confirms and manual acks; JetStream as a
work queue on file that is synced always, with publish acks and explicit acks.
"""

import asyncio
import importlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from bench.brokers import free_port
from bench.kafka import cache_directory
from bench.process import Failed, Process, Usage

FETCH_SECONDS_MAX = 600
READY_SECONDS_MAX = 60.0
NATS_MODULE = "github.com/nats-io/nats-server/v2@latest"
QUEUE = "bench"


class Missing(Exception):
    """The peer cannot be had here; says why."""


def library(package: str, module: str) -> Any:
    """A client library from PyPI, in the cache."""
    place = cache_directory() / "python"
    if str(place) not in sys.path:
        sys.path.append(str(place))
    if importlib.util.find_spec(module) is None:
        _run([sys.executable, "-m", "pip", "install", "-q", "--target", str(place), package])
        importlib.invalidate_caches()
    return importlib.import_module(module)


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

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: Process | None = None

    def start(self) -> None:
        raise NotImplementedError

    async def open(self) -> None:
        """Make the queue."""
        raise NotImplementedError

    async def publisher(self) -> Any:
        """Something with `publish(list of bytes)`, back when all are durable, and `close()`."""
        raise NotImplementedError

    async def worker(self, count: int) -> Any:
        """Something with `take()`, up to `count` values that are then acked by `done()`."""
        raise NotImplementedError

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
    sync_interval: ClassVar[str] = "always"

    def start(self) -> None:
        executable = _nats_server()
        self._nats = library("nats-py", "nats")
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

    async def _connect(self) -> Any:
        return await self._nats.connect(f"nats://127.0.0.1:{self.port}")

    async def open(self) -> None:
        link = await self._connect()
        await link.jetstream().add_stream(
            name=QUEUE, subjects=[QUEUE], retention="workqueue", storage="file"
        )
        settings = self._nats.js.api.ConsumerConfig(max_ack_pending=1_000_000)
        await link.jetstream().pull_subscribe(QUEUE, durable=QUEUE, config=settings)
        await link.close()

    async def publisher(self) -> Any:
        return _NatsPublisher(await self._connect())

    async def worker(self, count: int) -> Any:
        link = await self._connect()
        taker = await link.jetstream().pull_subscribe(QUEUE, durable=QUEUE)
        return _NatsWorker(link, taker, count, self._nats.errors.TimeoutError)


class UnsyncedNats(Nats):
    """As JetStream is when nothing is said: a power cut takes the last two minutes."""

    name = "nats-unsynced"
    sync_interval = '"2m"'


class _NatsPublisher:
    def __init__(self, link: Any) -> None:
        self._link = link
        self._stream = link.jetstream(publish_async_max_pending=100_000)

    async def publish(self, values: list[bytes]) -> None:
        acks = [await self._stream.publish_async(QUEUE, value) for value in values]
        await asyncio.gather(*acks)

    async def close(self) -> None:
        await self._link.close()


class _NatsWorker:
    def __init__(self, link: Any, taker: Any, count: int, nothing: type[Exception]) -> None:
        self._link = link
        self._taker = taker
        self._count = count
        self._nothing = nothing
        self._taken: list[Any] = []

    async def take(self) -> list[bytes]:
        try:
            self._taken = await self._taker.fetch(self._count, timeout=1)
        except self._nothing:
            self._taken = []
        return [each.data for each in self._taken]

    async def done(self) -> None:
        for each in self._taken[:-1]:
            await each.ack()
        if self._taken:
            await self._taken[-1].ack_sync(timeout=30)  # those before it are acked, too

    async def close(self) -> None:
        await self._link.close()


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
        self._library = library("aio-pika", "aio_pika")
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
        super().stop()
        if self._names is not None:
            self._names.stop()

    def usage(self) -> Usage:
        """Of Erlang's machine, which the start script waits for or becomes."""
        assert self._process is not None
        family = [self._process.pid, *_descendants(self._process.pid)]
        found = max(family, key=_cpu_ticks)
        return _usage(found)

    async def _connect(self) -> Any:
        for _ in range(100):
            try:
                return await self._library.connect(f"amqp://guest:guest@127.0.0.1:{self.port}/")
            except (OSError, self._library.exceptions.AMQPError):
                await asyncio.sleep(0.2)
        raise Failed("rabbitmq does not answer")

    async def open(self) -> None:
        link = await self._connect()
        channel = await link.channel()
        await channel.declare_queue(QUEUE, durable=True)
        await link.close()

    async def publisher(self) -> Any:
        link = await self._connect()
        channel = await link.channel(publisher_confirms=True)
        return _RabbitPublisher(link, channel, self._library)

    async def worker(self, count: int) -> Any:
        link = await self._connect()
        channel = await link.channel()
        await channel.set_qos(prefetch_count=2 * count)
        worker = _RabbitWorker(link, count)
        queue = await channel.declare_queue(QUEUE, durable=True)
        await queue.consume(worker.arrived.put)
        return worker


class _RabbitPublisher:
    def __init__(self, link: Any, channel: Any, kinds: Any) -> None:
        self._link = link
        self._exchange = channel.default_exchange
        self._kinds = kinds

    async def publish(self, values: list[bytes]) -> None:
        mode = self._kinds.DeliveryMode.PERSISTENT
        messages = [self._kinds.Message(value, delivery_mode=mode) for value in values]
        await asyncio.gather(*(self._exchange.publish(each, QUEUE) for each in messages))

    async def close(self) -> None:
        await self._link.close()


class _RabbitWorker:
    def __init__(self, link: Any, count: int) -> None:
        self.arrived: asyncio.Queue[Any] = asyncio.Queue()
        self._link = link
        self._count = count
        self._last: Any = None

    async def take(self) -> list[bytes]:
        try:
            async with asyncio.timeout(1):
                taken = [await self.arrived.get()]
        except TimeoutError:
            return []
        while len(taken) < self._count and not self.arrived.empty():
            taken.append(self.arrived.get_nowait())
        self._last = taken[-1]
        return [each.body for each in taken]

    async def done(self) -> None:
        await self._last.ack(multiple=True)

    async def close(self) -> None:
        await self._link.close()


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
