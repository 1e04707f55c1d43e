"""A short slice of `make demo`: the story as a whole, without its crash."""

import subprocess
import sys
from pathlib import Path

from tests.spark import as_installed

ROOT = Path(__file__).parents[2]


def test_the_demo_counts_to_the_message_with_what_users_install(tmp_path: Path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "demo", "--quick", "--orders", "1000", "--rate", "5000"]
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
