"""A node's process: known to be ready, started again when it dies, given up when it never was."""

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from goqueue.cli.nodes.output import NodeLog
from goqueue.cli.nodes.process import NodeProcess, Program
from tests.unit.cli.nodes.children import READY, WAIT, child, quiet_log

LIMIT_S = 20.0


class Watcher:
    def __init__(self) -> None:
        self.ready: asyncio.Queue[str] = asyncio.Queue()
        self.failed: list[int] = []
        self.said: list[str] = []

    def node_ready(self, node: NodeProcess) -> None:
        self.ready.put_nowait(node.addresses)

    def node_failed(self, node: NodeProcess) -> None:
        self.failed.append(node.node_id)

    def node_said(self, node: NodeProcess, line: str) -> None:
        self.said.append(line)


@asynccontextmanager
async def running(
    program: Program, watcher: Watcher, log: NodeLog | None = None
) -> AsyncIterator[NodeProcess]:
    node = NodeProcess(2, program, log or quiet_log(), watcher)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(node.run())
        yield node


async def test_a_node_is_ready_when_it_says_so_and_stops_when_told():
    watcher = Watcher()
    async with running(child(READY.format(2), WAIT), watcher) as node:
        assert await watcher.ready.get() == "kafka=k2 http=http://h2"
        assert node.ready.is_set()
        node.stop(signal.SIGTERM)
    assert node.ended.is_set()
    assert node.exit_code == -signal.SIGTERM
    assert not watcher.failed


async def test_a_node_that_was_killed_is_started_again(tmp_path: Path):
    watcher = Watcher()
    name = tmp_path / "process"
    told = f"open({str(name)!r}, 'w').write(str(os.getpid()))"
    async with running(child(told, READY.format(2), WAIT), watcher) as node:
        await watcher.ready.get()
        first = int(name.read_text())
        os.kill(first, signal.SIGKILL)
        await watcher.ready.get()
        assert int(name.read_text()) != first
        node.stop(signal.SIGTERM)
    assert not watcher.failed


async def test_a_node_that_ends_before_it_is_ready_is_given_up_with_what_it_said():
    watcher, stream = Watcher(), io.StringIO()
    says = "sys.stderr.write('starting\\nerror: the port is in use\\nsee to it\\n'); sys.exit(2)"
    log = NodeLog(is_readable=True, stream=stream)
    async with running(child(says), watcher, log) as node:
        await node.ended.wait()
    assert watcher.failed == [2]
    assert node.has_failed
    assert node.end == "exit code 2"
    assert node.last_lines() == ["error: the port is in use", "see to it"]
    assert stream.getvalue().startswith("node 2 | starting\n")


async def test_a_node_that_waits_to_be_started_again_can_be_stopped():
    watcher = Watcher()
    async with running(child(READY.format(2), "sys.exit(3)"), watcher) as node:
        for _ in range(3):
            await watcher.ready.get()
        node.stop(signal.SIGTERM)
    assert node.ended.is_set()


async def test_only_a_node_that_is_ready_is_told_to_reload():
    watcher = Watcher()
    handle = "signal.signal(signal.SIGHUP, lambda *_: os.write(1, b'GoQueue is ready: again=1\\n'))"
    async with running(child(READY.format(2), handle, READY.format(3), WAIT), watcher) as node:
        node.reload()  # nobody is there yet
        await watcher.ready.get()
        await watcher.ready.get()  # handles signals
        node.reload()
        assert await watcher.ready.get() == "again=1"
        node.stop(signal.SIGTERM)


def test_how_a_node_ended_is_said_in_words():
    node = NodeProcess(1, child(), quiet_log(), Watcher())
    node.exit_code = -signal.SIGKILL
    assert node.end == "killed by SIGKILL"


async def test_what_a_node_prints_for_its_user_is_in_no_log():
    watcher, log = Watcher(), io.StringIO()
    password = "print('user root, password s3cret', flush=True)"
    program = child(password, READY.format(2), WAIT)
    async with running(program, watcher, NodeLog(is_readable=True, stream=log)) as node:
        await watcher.ready.get()
        node.stop(signal.SIGTERM)
    assert watcher.said == ["user root, password s3cret"]
    assert "s3cret" not in log.getvalue()
