"""Which files of a backup are copied, and which are linked."""

import os
from pathlib import Path

import pytest

from goqueue.embedding import embedded
from tests.unit.cli.commands.test_backup import read
from tests.unit.cli.conftest import VALUES
from tests.unit.cli.invocation import run


def test_what_the_server_will_write_to_is_copied_and_the_rest_linked(filled: Path, backup: Path):
    logs = sorted((backup / "data" / "logs" / "orders" / "0").glob("*.log"))
    assert logs[0].stat().st_nlink > 1
    assert logs[-1].stat().st_nlink == 1
    before = {path: path.read_bytes() for path in backup.rglob("*") if path.is_file()}
    with embedded(filled) as broker:
        broker.publish("orders", "later")
    assert {path: path.read_bytes() for path in backup.rglob("*") if path.is_file()} == before


def test_every_file_is_copied_on_demand(filled: Path, tmp_path: Path):
    run("backup", tmp_path / "copy", "--data-dir", filled, "--copy")
    assert {p.stat().st_nlink for p in (tmp_path / "copy").rglob("*.log")} == {1}


def test_links_give_way_to_copies_where_there_are_none(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    run("backup", tmp_path / "elsewhere", "--data-dir", filled)
    run("restore", tmp_path / "elsewhere", tmp_path / "again")
    assert read(tmp_path / "again")[: len(VALUES)] == VALUES
