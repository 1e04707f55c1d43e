"""A whole node: the data directory's lock, the broker, its listeners; from start to stop.

lock the data directory ─> open the broker ─> start the listeners ─> ready ─> … ─> drain ─> stop
"""

import asyncio
import contextlib
import os
import platform
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import msgspec
import structlog

from goqueue._version import __version__, compiled_modules
from goqueue.broker import Broker
from goqueue.model.config import RELOADABLE, Address, Config, differences, parse_address, reload
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Environment, real_environment
from goqueue.runtime.lock import DirectoryLock
from goqueue.runtime.tasks import owned_tasks
from goqueue.server.checks import add_checks
from goqueue.server.cluster.listener import ClusterListener
from goqueue.server.cluster.node import cluster_listener
from goqueue.server.first_admin import make_first_admin
from goqueue.server.http.asgi.listener import HttpListener
from goqueue.server.kafka.listener import KafkaListener
from goqueue.server.metrics import Metrics
from goqueue.server.server_log import ServerLog
from goqueue.server.tls import ServerTls, WatchedCertificate, watch_nodes

_log = structlog.get_logger("goqueue.server")


class Reloaded(msgspec.Struct, frozen=True):
    changed: dict[str, Any]
    """Settings that are in force from now on, by dotted path."""
    needs_restart: list[str]
    """Settings that are otherwise now, and that only a restart brings into force."""


class Node:
    """A running server."""

    def __init__(
        self,
        broker: Broker,
        kafka: KafkaListener,
        http: HttpListener,
        cluster: ClusterListener | None,
        server_log: ServerLog,
    ) -> None:
        self.broker = broker
        self._kafka = kafka
        self._http = http
        self._server_log = server_log
        self.kafka: Address = kafka.address
        self.http: Address = http.address
        self.first_password: str | None = None  # of the first user, to be shown once
        self.cluster: Address | None = None if cluster is None else cluster.address

    def ready_line(self) -> str:
        scheme = "https" if self.broker.config.tls.cert_file else "http"
        line = f"GoQueue is ready: kafka={self.kafka} http={scheme}://{self.http}"
        return line if self.cluster is None else f"{line} cluster={self.cluster}"

    @property
    def connections(self) -> dict[str, int]:
        """Open connections by listener."""
        return {"kafka": self._kafka.connection_count, "http": self._http.connection_count}

    def reload(self, config: Config) -> Reloaded:
        """Take over what can be changed while the server runs."""
        before = self.broker.config
        found = differences(before, config)
        after = reload(before, config)
        self.broker.reconfigure(after)
        self._kafka.config = after.kafka
        self._server_log.access_log = after.access_log
        if after.log_level != self._server_log.level:  # also one that was set by hand
            self._server_log.set_level(after.log_level)
        return Reloaded(
            {path: value for path, value in found.items() if path in RELOADABLE},
            sorted(found.keys() - RELOADABLE),
        )

    async def drain(self, ended: asyncio.Event) -> None:
        """Say that no more traffic is wanted, and serve on for `drain_ms`, or until `ended`.

        Other nodes lead what this one led, as far as they can.
        """
        cluster = self.broker.cluster
        self._http.health.set_draining()
        await self._try("partitions not handed over", cluster.hand_over())
        if any(self.connections.values()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.broker.config.drain_ms / 1000):
                    await ended.wait()
        await self._try("the other nodes were not told", cluster.leave())

    async def _try(self, otherwise: str, work: Awaitable[None]) -> None:
        """A node stops all the same: the others notice."""
        try:
            async with asyncio.timeout(self.broker.config.shutdown_seconds):
                await work
        except (GoQueueError, TimeoutError) as error:
            _log.warning(otherwise, problem=str(error) or "it took too long")


@contextlib.asynccontextmanager
async def running_node(
    config: Config, environment: Environment | None = None, server_log: ServerLog | None = None
) -> AsyncIterator[Node]:
    """A node that serves until the block ends; everything is on disk and closed after it."""
    started = time.monotonic()
    server_log = server_log or ServerLog(config.log_level, access_log=config.access_log)
    _tell_start(config)
    environment = environment or real_environment(config.storage.open_files_max)
    await environment.disk.in_background(lambda: environment.disk.make_directory(config.data_dir))
    lock = DirectoryLock(config.data_dir)
    stopping = started
    broker = None
    try:
        broker = Broker(environment, config)
        metrics = Metrics(broker)
        async with broker.running(), owned_tasks() as tasks:
            _tell_opened(broker, started)
            kafka = KafkaListener(broker, config.kafka, metrics, server_log)
            http = HttpListener(broker, config.http, metrics, server_log=server_log)
            watched = await _certificates(broker, kafka, http)
            metrics.security.certificates = watched
            watching = [tasks.create_task(each.run()) for each in watched.values()]
            watching.append(tasks.create_task(metrics.loop_lag.run()))
            cluster = cluster_listener(broker, metrics, server_log)
            listeners = [each for each in (cluster, kafka, http) if each is not None]
            try:
                add_checks(http.health, broker)
                for listener in listeners:
                    await listener.start(tasks)
                kafka.http_address = http.address
                await broker.announce(_addresses(config, kafka, http, cluster), platform.node())
                password = await make_first_admin(broker, config.auth)
                http.ready = True
                node = Node(broker, kafka, http, cluster, server_log)
                node.first_password = password
                _log.info("ready", kafka=str(node.kafka), http=str(node.http), **_since(started))
                yield node
            finally:
                stopping = time.monotonic()
                http.ready = False
                for task in watching:
                    task.cancel()
                seconds = broker.config.shutdown_seconds
                await asyncio.gather(*(listener.stop(seconds) for listener in listeners))
    finally:
        environment.disk.close()  # waits for its threads: nobody may write before they are done
        lock.release()
        if broker is not None and stopping > started:
            _log.info("stopped", is_clean=broker.partitions.closed_cleanly, **_since(stopping))


async def _certificates(
    broker: Broker, kafka: KafkaListener, http: HttpListener
) -> dict[str, WatchedCertificate]:
    """Of the ports, as far as they speak TLS; raises `InvalidSetting`."""
    found: dict[str, WatchedCertificate] = {}
    clock = broker.environment.clock
    if broker.config.tls.cert_file:
        tls = await asyncio.to_thread(ServerTls, broker.config.tls, clock)
        kafka.tls = http.tls = tls.context
        found["clients"] = tls.certificate
    if broker.cluster.tls is not None:
        found["cluster"] = await asyncio.to_thread(watch_nodes, broker.cluster.tls, clock)
    return found


def _addresses(
    config: Config, kafka: KafkaListener, http: HttpListener, cluster: ClusterListener | None
) -> dict[str, Address]:
    """As clients and other nodes are told to connect, by listener."""
    found = {"kafka": _choose_address(config.kafka.advertised, kafka.address)}
    found["http"] = _choose_address(config.http.advertised, http.address)
    if cluster is not None:
        found["cluster"] = _choose_address(config.cluster.advertised, cluster.address)
    return found


def _choose_address(advertised: str, listened_on: Address) -> Address:
    return parse_address(advertised) if advertised else listened_on


def _tell_start(config: Config) -> None:
    _log.info(
        "starting",
        version=__version__,
        is_compiled=bool(compiled_modules()),
        process=os.getpid(),
        data_dir=config.data_dir,
        settings=differences(Config(), config),
    )


def _tell_opened(broker: Broker, started: float) -> None:
    """Logs of topics are verified when they are first used; these are the broker's own."""
    topics = broker.topics()
    recovery = broker.partitions.recovery
    _log.info(
        "data directory opened",
        topics=len(topics),
        partitions=sum(topic.partitions for topic in topics),
        verified_bytes=recovery.verified_bytes,
        cut_bytes=recovery.cut_bytes,
        **_since(started),
    )


def _since(started: float) -> dict[str, float]:
    return {"seconds": round(time.monotonic() - started, 3)}
