"""The messages to systemd, and the unit file that makes it listen to them."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.runtime.service_manager import ServiceManager

UNIT = Path(__file__).parents[3] / "deploy" / "systemd" / "goqueue.service"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.setblocking(False)
        yield bound


def test_without_a_service_manager_nothing_is_sent():
    ServiceManager({}).ready()
    asyncio.run(ServiceManager({"WATCHDOG_USEC": "1000"}).run_watchdog())


def test_a_service_manager_that_is_gone_does_not_matter(tmp_path: Path):
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready()


def test_the_watchdog_of_another_process_is_not_fed(manager: socket.socket):
    variables = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "1000"}
    other = {**variables, "WATCHDOG_PID": str(os.getpid() + 1)}
    asyncio.run(ServiceManager(other).run_watchdog())
    with pytest.raises(BlockingIOError):
        manager.recv(100)


def test_a_reload_carries_the_time_of_its_signal(manager: socket.socket):
    ServiceManager({"NOTIFY_SOCKET": manager.getsockname()}).notify_reloading()
    first, second = manager.recv(100).decode().splitlines()
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_the_unit_file(tmp_path: Path):
    here = tmp_path / UNIT.name
    here.write_text(UNIT.read_text().replace("/opt/goqueue/bin/goqueue", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(here)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
