"""What tests of the command line share: no settings of this machine, and data to back up."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from goqueue.embedding import BrokerInThread, embedded
from tests.unit.cli.invocation import run

VALUES = [f"{number} {'x' * 500}" for number in range(40)]


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOQUEUE_CONFIG", str(tmp_path / "config.yaml"))


@pytest.fixture(scope="module")  # names that two files share would clash by chance
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerInThread]:
    with embedded(tmp_path_factory.mktemp("server"), topics={"partitions": 1}) as broker:
        yield broker


@pytest.fixture
def server(running_server: BrokerInThread, monkeypatch: pytest.MonkeyPatch) -> BrokerInThread:
    """A server that commands talk to; tests take names of their own, and it logs nothing."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    monkeypatch.setenv("GOQUEUE_SERVER", running_server.http)
    return running_server


ADMIN = {"GOQUEUE_USER": "root", "GOQUEUE_PASSWORD": "s3cret"}


@pytest.fixture(scope="module")  # names that two files share would clash by chance
def running_guarded_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[BrokerInThread]:
    directory = tmp_path_factory.mktemp("guarded")
    password = directory / "password"
    password.write_text("s3cret\n")
    auth = {
        "enabled": True,
        "init_admin": "root",
        "init_admin_password_file": str(password),
        "failed_login_delay_ms": 0,
    }
    with embedded(directory / "data", auth=auth, topics={"partitions": 1}) as broker:
        yield broker


@pytest.fixture
def guarded(
    running_guarded_server: BrokerInThread, monkeypatch: pytest.MonkeyPatch
) -> BrokerInThread:
    """A server that demands logins; commands talk to it as its administrator."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    monkeypatch.setenv("GOQUEUE_SERVER", running_guarded_server.http)
    for name, text in ADMIN.items():
        monkeypatch.setenv(name, text)
    return running_guarded_server


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a stopped server that has `VALUES` in `orders`."""
    directory = tmp_path_factory.mktemp("backup") / "data"
    with embedded(directory, topics={"partitions": 1}) as broker:
        broker.create_topic("orders", settings={"segment.bytes": "4096"})
        for value in VALUES:
            broker.publish("orders", value)
    return directory


@pytest.fixture
def backup(filled: Path, tmp_path: Path) -> Path:
    run("backup", tmp_path / "backup", "--data-dir", filled, code=0)
    return tmp_path / "backup"
