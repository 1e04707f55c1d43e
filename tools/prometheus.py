"""Prometheus' own programs, for checks and pictures: those of this machine, or fetched.

python -m tools.prometheus promtool test rules deploy/prometheus/alerts_test.yml

Looked for in PATH, then in a directory of its own; then the Debian package is unpacked there, or Go
builds them.  `GOQUEUE_PROMETHEUS` names another directory.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

VERSION: Final = "v0.307.3"  # Go's name of Prometheus 3.7.3
MODULE: Final = "github.com/prometheus/prometheus/cmd"


def directory() -> Path:
    return Path(os.environ.get("GOQUEUE_PROMETHEUS") or Path.home() / ".cache/goqueue/prometheus")


def find(program: str) -> Path | None:
    """`prometheus` or `promtool`, if it is there."""
    found = shutil.which(program)
    if found is not None:
        return Path(found)
    own = directory() / program
    return own if own.exists() else None


def fetch(program: str) -> Path:
    """The same, fetched if need be; raises `SystemExit`, saying what was tried."""
    found = find(program)
    if found is not None:
        return found
    directory().mkdir(parents=True, exist_ok=True)
    if not (_unpack_debian() or _build(program)):
        raise SystemExit(
            f"{program} is not here, and neither apt nor go could fetch it: install Prometheus"
        )
    found = find(program)
    assert found is not None, f"{program} was fetched"
    return found


def _unpack_debian() -> bool:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        return False
    with tempfile.TemporaryDirectory() as place:
        fetched = subprocess.run(
            ["apt-get", "download", "prometheus"], cwd=place, capture_output=True, check=False
        )
        packages = list(Path(place).glob("*.deb"))
        if fetched.returncode or not packages:
            return False
        subprocess.run(["dpkg-deb", "-x", str(packages[0]), place], check=True)
        for each in ("prometheus", "promtool"):
            shutil.copy2(Path(place, "usr/bin", each), directory() / each)
    return True


def _build(program: str) -> bool:
    """Takes minutes the first time."""
    if not shutil.which("go"):
        return False
    environment = {**os.environ, "GOBIN": str(directory())}
    command = ["go", "install", f"{MODULE}/{program}@{VERSION}"]
    return subprocess.run(command, env=environment, check=False).returncode == 0


def main(program: str, *arguments: str) -> int:
    return subprocess.run([fetch(program), *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
