"""A whole node: the data directory's lock, the broker, its listeners; from start to stop.

lock the data directory ─> open the broker ─> start the listeners ─> ready ─> … ─> stop
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec
import structlog

from goqueue.broker import Broker
from goqueue.model.config import Address, Config
from goqueue.runtime import Doors, real_doors
from goqueue.runtime.lock import DirectoryLock
from goqueue.runtime.tasks import owned_tasks
from goqueue.server.http.listener import HttpListener
from goqueue.server.kafka.listener import KafkaListener
from goqueue.server.metrics import Metrics

_log = structlog.get_logger("goqueue.server")


class Node(msgspec.Struct, frozen=True):
    """A running server."""

    broker: Broker
    kafka: Address
    http: Address

    def ready_line(self) -> str:
        return f"GoQueue is ready: kafka={self.kafka} http=http://{self.http}"


@contextlib.asynccontextmanager
async def running_node(config: Config, doors: Doors | None = None) -> AsyncIterator[Node]:
    """A node that serves until the block ends; everything is on disk and closed after it."""
    doors = doors or real_doors(config.storage.open_files_max)
    await doors.disk.in_background(lambda: doors.disk.make_directory(config.data_dir))
    lock = DirectoryLock(config.data_dir)
    try:
        broker = Broker(doors, config)
        metrics = Metrics(broker)
        async with broker.running(), owned_tasks() as tasks:
            kafka = KafkaListener(broker, config.kafka, metrics)
            http = HttpListener(broker, config.http, metrics)
            try:
                await kafka.start(tasks)
                await http.start(tasks)
                kafka.http_address = http.address
                http.ready = True
                yield Node(broker, kafka.address, http.address)
            finally:
                http.ready = False
                await asyncio.gather(
                    kafka.stop(config.shutdown_seconds), http.stop(config.shutdown_seconds)
                )
    finally:
        doors.disk.close()  # waits for its threads: nobody else may write before they are done
        lock.release()
