"""Which files of a backup are copied, and which are linked."""

import os
from pathlib import Path

import msgspec
import pytest

from goqueue.client import Client, Message
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


def test_delayed_messages_and_their_timers_are_in_a_backup(tmp_path: Path):
    with embedded(tmp_path / "data", topics={"partitions": 1}) as broker:
        broker.publish("late", Message("x", delay_ms=3_600_000))
    run("backup", tmp_path / "copy", "--data-dir", tmp_path / "data")
    manifest = msgspec.json.decode((tmp_path / "copy" / "backup.json").read_bytes())
    kinds = {each["kind"] for each in manifest["logs"] if each["topic"] == "late"}
    assert kinds == {"", "delays", "timers"}
    run("restore", tmp_path / "copy", tmp_path / "again")
    with embedded(tmp_path / "again") as broker, Client(broker.http) as client:
        assert [each.offset for each in client.delayed_messages("late").messages] == [0]
