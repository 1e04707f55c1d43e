"""A short slice of `make demo`: the story as a whole, without its crash."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_counts_to_the_message(tmp_path: Path):
    command = [sys.executable, "-m", "demo", "--quick", "--orders", "1000", "--rate", "5000"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout
    assert "1,002" in done.stdout
    assert list(tmp_path.iterdir()) == [], "it cleans up behind itself"
