"""`goqueue backup` and `goqueue restore` of a stopped server, and everything they refuse."""

import shutil
from pathlib import Path

import msgspec

from goqueue.embedding import embedded
from tests.unit.cli.conftest import VALUES
from tests.unit.cli.invocation import run


def read(data_dir: Path) -> list[str]:
    with embedded(data_dir) as broker:
        return [(message.value or b"").decode() for message in broker.read("orders")]


def test_a_stopped_server_is_backed_up_and_restored(filled: Path, backup: Path, tmp_path: Path):
    restored = msgspec.json.decode(run("restore", backup, tmp_path / "again").stdout)
    assert restored["topics"] == 1
    assert read(tmp_path / "again") == VALUES
    assert not (tmp_path / "backup.partial").exists()


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
