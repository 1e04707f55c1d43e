"""Several nodes as one command: the order of starts and stops, what is printed, exit codes."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from goqueue.cli.failures import Failure
from goqueue.cli.nodes.plan import NodePlan
from goqueue.cli.nodes.process import NodeProcess, Program
from goqueue.cli.nodes.supervisor import Supervisor, program, ready_line
from goqueue.runtime.service_manager import ServiceManager
from tests.unit.cli.nodes.children import READY, WAIT, child, quiet_log

LIMIT_S = 20.0


def note(diary: Path, number: int, what: str) -> str:
    return f"open({str(diary)!r}, 'a').write('{what} {number}\\n')"


def node(diary: Path, number: int) -> Program:
    """Writes down that it starts and that it stops."""
    return child(
        note(diary, number, "start"),
        "def stop(*_):",
        f"    {note(diary, number, 'stop')}",
        "    os._exit(0)",
        "signal.signal(signal.SIGTERM, stop)",
        "signal.signal(signal.SIGINT, stop)",
        READY.format(number),
        WAIT,
    )


class Run(Supervisor):
    """Sends itself a signal when all nodes are ready."""

    def __init__(self, programs: dict[int, Program], how: signal.Signals = signal.SIGTERM) -> None:
        super().__init__(programs, quiet_log(), ServiceManager({}), stop_seconds=10)
        self._signal = how
        self._count = 0

    def node_ready(self, node: NodeProcess) -> None:
        super().node_ready(node)
        self._count += 1
        if self._count == len(self.nodes):
            os.kill(os.getpid(), self._signal)


async def run(programs: dict[int, Program], how: signal.Signals = signal.SIGTERM) -> None:
    async with asyncio.timeout(LIMIT_S):
        await Run(programs, how).run()


async def test_the_first_node_is_started_first_and_stopped_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    diary = tmp_path / "diary"
    await run({number: node(diary, number) for number in (1, 2, 3)})
    lines = diary.read_text().splitlines()
    assert lines[0] == "start 1"
    assert sorted(lines[1:3]) == ["start 2", "start 3"]
    assert lines[3:] == ["stop 3", "stop 2", "stop 1"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "node 1 is ready: kafka=k1 http=http://h1"
    assert len(printed) >= 3  # the line of all comes a moment after the last node's


async def test_an_interrupt_stops_the_others_at_once_and_then_the_first(tmp_path: Path):
    diary = tmp_path / "diary"
    await run({number: node(diary, number) for number in (1, 2, 3)}, signal.SIGINT)
    assert diary.read_text().splitlines()[-1] == "stop 1"


async def test_a_node_that_does_not_start_stops_all_with_what_it_said(tmp_path: Path):
    diary = tmp_path / "diary"
    broken = child("sys.stderr.write('error: no such disk\\n'); sys.exit(1)")
    with pytest.raises(Failure) as caught:
        await run({1: node(diary, 1), 2: broken})
    assert caught.value.text == "node 2 did not start (exit code 1)\n  no such disk"
    assert diary.read_text().splitlines() == ["start 1", "stop 1"]


async def test_a_node_that_does_not_stop_well_is_a_failure(tmp_path: Path):
    unwell = child("signal.signal(signal.SIGTERM, lambda *_: os._exit(7))", READY.format(2), WAIT)
    with pytest.raises(Failure, match="not stopped in good order: node 2"):
        await run({1: node(tmp_path / "diary", 1), 2: unwell})


def test_the_line_of_all_nodes_lists_their_addresses():
    line = ready_line(["kafka=a:1 http=http://a:2", "kafka=a:3 http=http://a:4"])
    assert line == "GoQueue is ready: 2 nodes, kafka=a:1,a:3 http=http://a:2,http://a:4"


def test_a_node_gets_the_flags_of_the_command_and_its_own_settings_over_them(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("NOTIFY_SOCKET", "of the supervisor")
    plan = NodePlan(2, {"data_dir": "data/2"})
    flags = {"data_dir": "data", "insecure": True, "http.listen": None}
    made = program(plan, flags, Path("goqueue.toml"))
    assert made.arguments[-7:] == [
        "server",
        "--config",
        "goqueue.toml",
        "--set",
        "data_dir=data/2",
        "--set",
        "insecure=true",
    ]
    assert "NOTIFY_SOCKET" not in made.environment
