"""What tests of the command line share: no settings of this machine, and data to back up."""

import os
from pathlib import Path

import pytest

from goqueue.embedding import embedded
from tests.unit.cli.invocation import run

VALUES = [f"{number} {'x' * 500}" for number in range(40)]


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GOQUEUE_CONFIG", str(tmp_path / "config.yaml"))


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
