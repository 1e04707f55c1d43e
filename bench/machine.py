"""What the figures were measured on: without it they mean nothing."""

import os
import platform
import shutil
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.brokers import installed_facts

SYNCS = 100
SYNC_BYTES = 4096


def facts(goqueue: str, directory: Path) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "cpu": _first_value("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "kernel": platform.release(),
        "filesystem": filesystem(directory),
        "fsync_ms": sync_times(directory),
        "goqueue": installed_facts(goqueue),
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    return [round(each, 2) for each in os.getloadavg()]


def commit() -> str:
    root = Path(__file__).parents[1]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return "unknown"
    argv = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def filesystem(directory: Path) -> str:
    """The type of the file system that holds the data."""
    best, found = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if f"{directory.resolve()}/".startswith(place.rstrip("/") + "/") and len(place) > len(best):
            best, found = place, kind
    return found


def sync_times(directory: Path) -> dict[str, float]:
    """How long the device itself takes to make 4 KiB durable: no broker can answer faster."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "sync-probe"
    taken = []
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        for _ in range(SYNCS):
            os.write(handle, bytes(SYNC_BYTES))
            started = time.perf_counter()
            os.fdatasync(handle)
            taken.append((time.perf_counter() - started) * 1000)
    finally:
        os.close(handle)
        path.unlink()
    taken.sort()
    return {
        "p50": round(taken[SYNCS // 2], 3),
        "p99": round(taken[SYNCS * 99 // 100], 3),
        "max": round(taken[-1], 3),
    }


def _first_value(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
