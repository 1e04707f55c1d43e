"""Several nodes, each in a process of its own, as one command.

start    node 1, which keeps the metadata; when it is ready, all others at once
SIGTERM  one node after the other, node 1 last: each hands over what it leads
SIGINT   all but node 1, then node 1;  a second signal goes to all at once
SIGHUP   is passed on: every node reads the configuration again
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import structlog

from goqueue.cli.failures import ExitCode, Failure
from goqueue.cli.nodes.output import NodeLog
from goqueue.cli.nodes.plan import NodePlan
from goqueue.cli.nodes.process import STOPPED, NodeProcess, Program
from goqueue.runtime.service_manager import ServiceManager
from goqueue.runtime.tasks import owned_tasks

GRACE_SECONDS: Final = 15.0  # beyond what the settings allow for a stop; then the node is killed
OF_THE_SUPERVISOR: Final = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")

_log = structlog.get_logger("goqueue.supervisor")


def supervise(
    plans: Sequence[NodePlan],
    flags: Mapping[str, Any],
    config: Path | None,
    *,
    is_readable: bool,
    stop_seconds: float,
) -> None:
    """Run the nodes until a signal comes.  `flags` and `config` are those of the command line."""
    log_format = "console" if is_readable else "json"
    programs = {
        plan.node_id: program(plan, {**flags, "log_format": log_format}, config) for plan in plans
    }
    asyncio.run(_supervise(programs, NodeLog(is_readable=is_readable), stop_seconds))


def program(plan: NodePlan, flags: Mapping[str, Any], config: Path | None) -> Program:
    settings = {path: _text(value) for path, value in flags.items() if value is not None}
    arguments = [sys.executable, "-P", "-m", "goqueue.cli.nodes.child", "server"]
    if config is not None:
        arguments += ["--config", str(config)]
    for path, text in (settings | plan.settings).items():
        arguments += ["--set", f"{path}={text}"]
    environment = {k: v for k, v in os.environ.items() if k not in OF_THE_SUPERVISOR}
    return Program(arguments, environment)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _supervise(programs: Mapping[int, Program], log: NodeLog, stop_seconds: float) -> None:
    manager = ServiceManager(os.environ)
    supervisor = Supervisor(programs, log, manager, stop_seconds)
    async with owned_tasks() as tasks:
        watchdog = tasks.create_task(manager.run_watchdog())
        await supervisor.run()
        watchdog.cancel()


class Supervisor:
    def __init__(
        self,
        programs: Mapping[int, Program],
        log: NodeLog,
        manager: ServiceManager,
        stop_seconds: float,
    ) -> None:
        self.nodes = [NodeProcess(node_id, each, log, self) for node_id, each in programs.items()]
        self._running: list[NodeProcess] = []
        self._manager = manager
        self._stop_seconds = stop_seconds + GRACE_SECONDS
        self._stopping = asyncio.Event()
        self._how = signal.SIGTERM

    async def run(self) -> None:
        """Until a signal comes; raises `Failure` if a node did not start, or did not stop well."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        for how in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(how, self._stop, how)
        async with owned_tasks() as tasks:
            starting = tasks.create_task(self._start(tasks))
            await self._stopping.wait()
            starting.cancel()
            self._manager.notify_stopping()
            await self._stop_nodes()
        self._check_ends()

    async def _start(self, tasks: asyncio.TaskGroup) -> None:
        for some in (self.nodes[:1], self.nodes[1:]):
            for each in some:
                self._running.append(each)
                tasks.create_task(each.run())
            for each in some:
                await each.ready.wait()
        _print(ready_line([each.addresses for each in self.nodes]))
        self._manager.ready()

    async def _stop_nodes(self) -> None:
        _log.info("stopping", reason=self._how.name, nodes=len(self._running))
        first, others = self._running[:1], self._running[1:]
        one_by_one = [[each] for each in reversed(others)]
        for some in (*(one_by_one if self._how == signal.SIGTERM else [others]), first):
            async with owned_tasks() as tasks:
                for each in some:
                    tasks.create_task(self._stop_node(each))

    async def _stop_node(self, node: NodeProcess) -> None:
        node.stop(self._how)
        try:
            async with asyncio.timeout(self._stop_seconds):
                await node.ended.wait()
        except TimeoutError:
            _log.error("node killed: it did not stop in time", node_id=node.node_id)
            node.stop(signal.SIGKILL)
            await node.ended.wait()

    def _check_ends(self) -> None:
        for each in self.nodes:
            if each.has_failed:
                code = ExitCode.USAGE if each.exit_code == ExitCode.USAGE else ExitCode.FAILED
                said = "".join(f"\n  {line.removeprefix('error: ')}" for line in each.last_lines())
                raise Failure(f"node {each.node_id} did not start ({each.end}){said}", code)
        left = [str(each.node_id) for each in self._running if each.exit_code not in STOPPED]
        if left:
            raise Failure(f"not stopped in good order: node {', '.join(left)}")

    # --- what happens -----------------------------------------------------------------------------

    def node_ready(self, node: NodeProcess) -> None:
        _print(f"node {node.node_id} is ready: {node.addresses}")

    def node_failed(self, node: NodeProcess) -> None:
        self._stopping.set()

    def node_said(self, node: NodeProcess, line: str) -> None:
        _print(line)

    def _stop(self, how: signal.Signals) -> None:
        if self._stopping.is_set():
            for each in self.nodes:
                each.stop(how)
            return
        self._how = how
        self._stopping.set()

    def _reload(self) -> None:
        self._manager.notify_reloading()
        for each in self.nodes:
            each.reload()
        self._manager.ready()


def ready_line(addresses: Sequence[str]) -> str:
    """Of all nodes together; `addresses` are as each node says them."""
    named = [dict(part.split("=", 1) for part in each.split()) for each in addresses]
    count = "1 node" if len(named) == 1 else f"{len(named)} nodes"
    lists = " ".join(f"{name}={','.join(each[name] for each in named)}" for name in named[0])
    return f"GoQueue is ready: {count}, {lists}"


def _print(line: str) -> None:
    print(line, flush=True)
