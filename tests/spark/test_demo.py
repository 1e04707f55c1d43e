"""A short slice of `make demo`: the story as a whole, without its crash."""

import subprocess
import sys
from pathlib import Path

from deltalake import DeltaTable

from tests.spark import as_installed

ROOT = Path(__file__).parents[2]


def test_the_demo_counts_to_the_message_with_what_users_install(tmp_path: Path):
    temporary, folder = tmp_path / "tmp", tmp_path / "demo"
    temporary.mkdir()
    command = [sys.executable, "-m", "demo", "--quick", "--orders", "1000", "--rate", "5000"]
    command += ["--folder", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=as_installed.environment(tmp_path / "site") | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout
    assert "1,002" in done.stdout
    assert list(temporary.iterdir()) == [], "it cleans up behind itself"
    kept = DeltaTable(folder / "lake" / "orders").to_pyarrow_dataset()
    assert kept.count_rows() == 1002, "the lake is left to look at"
    assert str(folder / "broker") in done.stdout
