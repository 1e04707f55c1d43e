"""What every suite has in common: its name, what it needs, and what its tests came to."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import ClassVar

import msgspec

PREPARE_SECONDS_MAX = 1_800


class Unavailable(Exception):
    """The suite cannot be run here; the message says what is missing."""


class Outcome(Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    TIMED_OUT = "timed out"
    KNOWN = "known"  # failed, and `Suite.known` says why that is expected


class Result(msgspec.Struct, frozen=True):
    test: str
    outcome: Outcome
    seconds: float = 0.0
    note: str = ""


class Suite:
    """One project's tests.  `prepare` once, then `run` against a broker's Kafka address."""

    name: ClassVar[str]
    version: ClassVar[str]
    needs: ClassVar[Sequence[str]] = ()
    """Programs that must be on the path."""
    server_arguments: ClassVar[Sequence[str]] = ()
    """What the suite takes for granted about its broker, as flags of `goqueue server`."""
    known: ClassVar[Mapping[str, str]] = {}
    """Tests that are expected to fail, each with the reason."""

    def __init__(self, cache: Path) -> None:
        self.directory = cache / f"{self.name}-{self.version}"

    def demand_tools(self) -> None:
        if missing := [tool for tool in self.needs if shutil.which(tool) is None]:
            raise Unavailable(f"{self.name} needs {', '.join(missing)} on the path")

    def prepare(self) -> None:
        """Fetch and build the suite, unless the cache has it."""
        if not self.directory.exists():
            self.demand_tools()
            work = self.directory.with_name(f"{self.directory.name}.partial")
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir(parents=True)
            self.build(work)
            work.rename(self.directory)

    def build(self, work: Path) -> None:
        raise NotImplementedError

    def run(self, address: str, tests: Sequence[str], report: Path) -> list[Result]:
        """Run these tests, or the usual ones if none is named.  Their output goes to `report`."""
        raise NotImplementedError

    def judge(self, result: Result) -> Result:
        """The result, with a failure that is expected marked as such."""
        reason = self.known.get(result.test)
        if reason is None or result.outcome not in (Outcome.FAILED, Outcome.TIMED_OUT):
            return result
        return msgspec.structs.replace(result, outcome=Outcome.KNOWN, note=reason)


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "goqueue-strangers"


def execute(
    argv: Sequence[str],
    directory: Path,
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    seconds_max: float = PREPARE_SECONDS_MAX,
) -> int | None:
    """Run a program with its output in `log`; its exit code, or None if the time ran out."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                argv,
                cwd=directory,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=seconds_max,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    return done.returncode


def demand(argv: Sequence[str], directory: Path, *, log: Path) -> None:
    """Run a step of the preparation; raises `Unavailable` with the end of its output."""
    if execute(argv, directory, log=log) != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise Unavailable(f"{' '.join(argv)} failed:\n{tail}")


def unpack(archive: Path, into: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
