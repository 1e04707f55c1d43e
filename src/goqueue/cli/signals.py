"""What signals do to a server.

SIGTERM, SIGINT   stop in good order: drain (SIGTERM only), close the listeners, checkpoint;
                  a second one does not wait.  A server that is still starting, and may wait for
                  another node, gives up
SIGHUP            read the configuration again and take over what can be changed at run time
"""

import asyncio
import signal
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import structlog

from goqueue.cli.failures import UsageFailure
from goqueue.model.config import Config
from goqueue.runtime.service_manager import ServiceManager
from goqueue.server import Node

STOPPING: Final = (signal.SIGTERM, signal.SIGINT)

_log = structlog.get_logger("goqueue.server")


class Signals:
    """Handles them for a block."""

    def __init__(self, read_config: Callable[[], Config], manager: ServiceManager) -> None:
        self.node: Node | None = None  # once it serves
        self._read_config = read_config
        self._manager = manager
        self._loop = asyncio.get_running_loop()
        self._first = asyncio.Event()
        self._second = asyncio.Event()
        self._reason = ""
        self._starting = asyncio.current_task()
        self.has_given_up = False  # the start

    def __enter__(self) -> Self:
        for each in STOPPING:
            self._loop.add_signal_handler(each, self._stop, each)
        self._loop.add_signal_handler(signal.SIGHUP, self._reload)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.remove_signal_handler(signal.SIGHUP)
        self._forget_stopping()

    async def wait_stop(self, node: Node) -> None:
        """Return when the listeners are to be closed; the next signal then ends the process."""
        await self._first.wait()
        self._manager.notify_stopping()
        _log.info("stopping", reason=self._reason, connections=node.connections)
        if self._reason == signal.SIGTERM.name:
            await node.drain(self._second)
        self._forget_stopping()

    def _forget_stopping(self) -> None:
        for each in STOPPING:
            self._loop.remove_signal_handler(each)

    def _stop(self, received: signal.Signals) -> None:
        if self._first.is_set():
            self._second.set()
        self._reason = self._reason or received.name
        self._first.set()
        if self.node is None and self._starting is not None:
            self.has_given_up = True
            self._starting.cancel()

    def _reload(self) -> None:
        if self.node is None or self._first.is_set():
            _log.warning("reload ignored: the server is starting or stopping")
            return
        self._manager.notify_reloading()
        try:
            result = self.node.reload(self._read_config())
        except UsageFailure as failure:
            _log.error("configuration not reloaded", problems=failure.text)
        else:
            _log.info(
                "configuration reloaded",
                changed=result.changed,
                needs_restart=result.needs_restart,
            )
        self._manager.ready()
