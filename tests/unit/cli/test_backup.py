"""`goqueue backup` and `goqueue restore` of a stopped server, and everything they refuse."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from goqueue.cli.main import app
from goqueue.embedding import embedded

VALUES = [f"{number} {'x' * 500}" for number in range(40)]


def run(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done


def read(data_dir: Path) -> list[str]:
    with embedded(data_dir) as broker:
        return [(message.value or b"").decode() for message in broker.read("orders")]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("backup") / "data"
    with embedded(directory, topics={"partitions": 1}) as broker:
        broker.create_topic("orders", settings={"segment.bytes": "4096"})
        for value in VALUES:
            broker.publish("orders", value)
    return directory


@pytest.fixture
def backup(filled: Path, tmp_path: Path) -> Path:
    run("backup", tmp_path / "backup", "--data-dir", filled)
    return tmp_path / "backup"


def test_a_stopped_server_is_backed_up_and_restored(filled: Path, backup: Path, tmp_path: Path):
    restored = msgspec.json.decode(run("restore", backup, tmp_path / "again").stdout)
    assert restored["topics"] == 1
    assert read(tmp_path / "again") == VALUES
    assert not (tmp_path / "backup.partial").exists()


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


def test_a_damaged_backup_is_refused(backup: Path, tmp_path: Path):
    (file,) = (backup / "data" / "logs" / "__metadata" / "0").glob("*.log")
    file.write_bytes(b"\0" * file.stat().st_size)
    assert "SHA-256" in run("restore", backup, tmp_path / "again", code=1).stderr
    file.unlink()
    assert "is missing" in run("restore", backup, tmp_path / "again", code=1).stderr
    assert not (tmp_path / "again").exists()


def test_damaged_data_is_backed_up_only_when_that_is_said(filled: Path, tmp_path: Path):
    data = Path(shutil.copytree(filled, tmp_path / "data"))
    log = min((data / "logs" / "orders" / "0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[200] ^= 1
    log.write_bytes(content)
    assert "damaged" in run("backup", tmp_path / "b", "--data-dir", data, code=1).stderr
    assert not (tmp_path / "b").exists()
    made = msgspec.json.decode(
        run("backup", tmp_path / "b", "--data-dir", data, "--allow-damage").stdout
    )
    assert "orders-0" in made["damage"][0]
    run("restore", tmp_path / "b", tmp_path / "again")


def test_directories_in_use_are_refused(filled: Path, backup: Path, tmp_path: Path):
    assert "not empty" in run("backup", backup, "--data-dir", filled, code=5).stderr
    assert "not empty" in run("restore", backup, filled, code=5).stderr
    assert "no backup" in run("restore", filled, tmp_path / "again", code=4).stderr
    inside = filled / "backup"
    assert "data directory" in run("backup", inside, "--data-dir", filled, code=1).stderr
    with embedded(filled):
        told = run("backup", tmp_path / "b", "--data-dir", filled, code=1).stderr
        assert "another GoQueue process" in told
