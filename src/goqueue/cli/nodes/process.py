"""One node in a process of its own: started, watched, and started again when it dies.

started ─> ready ─> … died ─> waits ─> started again
   └─ ended before it was ever ready: failed, for what stopped it will stop it again
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
import structlog

from goqueue.cli.nodes.output import NodeLog, Readable, lines_of
from goqueue.runtime.tasks import owned_tasks

READY: Final = "GoQueue is ready: "
RESTART_SECONDS: Final = 0.1  # twice as long each time, up to
RESTART_SECONDS_MAX: Final = 10.0
STEADY_SECONDS: Final = 30.0  # a node that was ready for so long is started again without a wait
LAST_LINES: Final = 12
# Asked to stop before it could tell what the signal means.
STOPPED: Final = (0, -signal.SIGTERM, -signal.SIGINT, 130)

_log = structlog.get_logger("goqueue.supervisor")


class Program(msgspec.Struct, frozen=True):
    arguments: Sequence[str]
    environment: Mapping[str, str]


class Watcher(Protocol):
    """Gets to know what becomes of nodes."""

    def node_ready(self, node: "NodeProcess") -> None: ...

    def node_failed(self, node: "NodeProcess") -> None: ...

    def node_said(self, node: "NodeProcess", line: str) -> None:
        """On standard output, which is for the person at the terminal and in no log."""


class NodeProcess:
    def __init__(self, node_id: int, program: Program, log: NodeLog, watcher: Watcher) -> None:
        self.node_id = node_id
        self.ready = asyncio.Event()  # at least once
        self.ended = asyncio.Event()  # for good
        self.has_failed = False  # before it was ever ready
        self.addresses = ""  # as the node said when it was ready
        self.exit_code = 0
        self._program = program
        self._log = log
        self._watcher = watcher
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._ready_at: float | None = None  # of the process that runs
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    async def run(self) -> None:
        """Until it is stopped, or has failed before it was ever ready."""
        wait = RESTART_SECONDS
        try:
            while not self._stopping.is_set():
                self.exit_code = await self._run_once()
                if self._stopping.is_set():
                    break
                if not self.ready.is_set():
                    self.has_failed = True
                    self._watcher.node_failed(self)
                    break
                wait = RESTART_SECONDS if self._was_steady() else wait
                self._tell_death(wait)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._stopping.wait()
                wait = min(wait * 2, RESTART_SECONDS_MAX)
        finally:
            self.ended.set()

    def stop(self, how: signal.Signals) -> None:
        """Pass the signal on, and do not start again."""
        self._stopping.set()
        self.send(how)

    def send(self, how: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(how)

    def reload(self) -> None:
        """A node that is about to start reads the configuration anyway, and could not be told."""
        if self._ready_at is not None:
            self.send(signal.SIGHUP)

    @property
    def end(self) -> str:
        """How it ended the last time."""
        code = self.exit_code
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"

    def last_lines(self) -> list[str]:
        """From the error on, if the node named one."""
        lines = list(self._last_lines)
        named = [at for at, line in enumerate(lines) if line.startswith("error: ")]
        return lines[named[-1] :] if named else lines

    async def _run_once(self) -> int:
        self._ready_at = None
        self._last_lines.clear()
        process = self._process = await asyncio.create_subprocess_exec(
            *self._program.arguments,
            env=self._program.environment,
            stdin=asyncio.subprocess.PIPE,  # it stops when this ends, see child.py
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # ctrl-c is for the supervisor, which stops nodes in order
        )
        assert process.stdout is not None
        assert process.stderr is not None
        if self._stopping.is_set():  # meanwhile
            process.terminate()
        try:
            async with owned_tasks() as tasks:
                tasks.create_task(self._read_output(process.stdout))
                tasks.create_task(self._read_log(process.stderr))
                return await process.wait()
        finally:
            if process.returncode is None:  # cancelled
                process.terminate()
                await process.wait()
            self._process = None

    async def _read_output(self, stream: Readable) -> None:
        async for line in lines_of(stream):
            if line.startswith(READY):
                self.addresses = line.removeprefix(READY)
                self._ready_at = asyncio.get_running_loop().time()
                self.ready.set()
                self._watcher.node_ready(self)
            else:
                self._watcher.node_said(self, line)

    async def _read_log(self, stream: Readable) -> None:
        async for line in lines_of(stream):
            self._last_lines.append(line)
            self._log.write(self.node_id, line)

    def _was_steady(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._ready_at is not None and now - self._ready_at >= STEADY_SECONDS

    def _tell_death(self, wait: float) -> None:
        facts = {"node_id": self.node_id, "end": self.end, "restart_seconds": wait}
        if self.exit_code == 0:  # it was asked to: see POST /cluster/nodes/{node}/restart
            _log.warning("node restarts", **facts)
        elif self._ready_at is None:  # it was up once, and does not come up again
            _log.error("node does not start", **facts, last_lines=self.last_lines())
        else:
            _log.error("node died", **facts)
