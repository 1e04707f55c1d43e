"""What `goqueue restore` refuses."""

from pathlib import Path

from tests.unit.cli.invocation import run


def test_a_damaged_backup_is_refused(backup: Path, tmp_path: Path):
    (file,) = (backup / "data" / "logs" / "__metadata" / "0").glob("*.log")
    file.write_bytes(b"\0" * file.stat().st_size)
    assert "SHA-256" in run("restore", backup, tmp_path / "again", code=1).stderr
    file.unlink()
    assert "is missing" in run("restore", backup, tmp_path / "again", code=1).stderr
    assert not (tmp_path / "again").exists()
