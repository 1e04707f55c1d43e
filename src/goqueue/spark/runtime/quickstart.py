"""What makes Spark start in half its time, kept in the user's cache between runs.

    ~/.cache/goqueue/spark/{key}/
        home/                  a SPARK_HOME: links to the package's bin, jars and sbin
        log4j2.properties      fewer words
        classes.jsa            the classes of Spark as the JVM wants them in memory
        classes.{pid}.jsa      the same, being written by a JVM that is about to end
        classes.{pid}.path     the class path of that JVM

*The home* has no `python/lib`: without it Python workers import pyspark from site-packages, whose
modules are compiled, and not from a zip of sources; each kind of worker saves most of a second.

*The archive* is written by a JVM when it ends (class data sharing).  The first session of a machine
asks its JVM for one; a later session that finds a whole one takes it over.  It holds for one class
path, in which no folder may have files: so `home/conf` stays empty.

The key is made of everything that an archive depends on.  Nothing here is needed: where the cache
cannot be written, or a JVM has no class data of its own to build on, Spark starts as it always did.
"""

import contextlib
import hashlib
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from goqueue.spark.runtime.java import Java

SWITCH: Final = "GOQUEUE_SPARK_QUICKSTART"  # "0" leaves it all out
LINKED: Final = ("bin", "jars", "sbin")
LEFT_OVER_S: Final = 3600.0  # after which nobody is still writing
CHECK_S: Final = 30.0

# Spark's own words at its start, and its traces, are for whoever sets a log level.
LOG_SETTINGS: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{0}
# Spark would say at its start that it makes this one different from the others.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


class QuickStart:
    """The folder for one pair of Java and Spark."""

    def __init__(self, folder: Path, java: Java) -> None:
        self._folder = folder
        self._java = java
        self.home = folder / "home"
        self._written: Path | None = None  # by the JVM of this process, when it ends

    @property
    def archive(self) -> Path:
        return self._folder / "classes.jsa"

    @property
    def log_settings(self) -> Path:
        return self._folder / "log4j2.properties"

    def java_options(self) -> list[str]:
        """Say little; read the archive, or write one."""
        quiet = f"-Dlog4j2.configurationFile=file:{self.log_settings}"
        if not self._can_archive():
            return [quiet]
        if self.archive.exists() or self._adopt():
            return [quiet, "-Xlog:disable", f"-XX:SharedArchiveFile={self.archive}"]
        self._written = self._folder / f"classes.{os.getpid()}.jsa"
        return [quiet, "-Xlog:disable", f"-XX:ArchiveClassesAtExit={self._written}"]

    def note_started(self, class_path: str) -> None:
        """The JVM that `java_options` were for is there, with this class path."""
        if self._written is not None:
            self._written.with_suffix(".path").write_text(class_path, encoding="utf-8")

    def _can_archive(self) -> bool:
        return (self._java.home / "lib" / "server" / "classes.jsa").exists()

    def _adopt(self) -> bool:
        """Take over what an earlier JVM left, if it came to the end of it."""
        for left in sorted(self._folder.glob("classes.*.jsa")):
            if self._is_whole(left):
                left.replace(self.archive)
                self._tidy(age_s=0.0)
                return True
        self._tidy(LEFT_OVER_S)
        return False

    def _tidy(self, age_s: float) -> None:
        """Remove what others left, of which one is enough."""
        for left in self._folder.glob("classes.*.*"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime >= age_s:
                    left.unlink()

    def _is_whole(self, archive: Path) -> bool:
        """Whether a JVM that may not do without it starts."""
        try:
            class_path = archive.with_suffix(".path").read_text(encoding="utf-8")
            asked = subprocess.run(
                [
                    self._java.command,
                    "-Xshare:on",
                    f"-XX:SharedArchiveFile={archive}",
                    "-cp",
                    class_path,
                    "-version",
                ],
                capture_output=True,
                timeout=CHECK_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return asked.returncode == 0


def quick_start(
    java: Java, spark_home: Path, spark_version: str, environment: Mapping[str, str]
) -> QuickStart | None:
    """Made ready for use; None where it is switched off or the cache cannot be written."""
    if environment.get(SWITCH) == "0":
        return None
    folder = cache(environment) / _key(java, spark_home, spark_version)
    try:
        return _prepare(QuickStart(folder, java), spark_home)
    except OSError:
        return None


def _prepare(quick: QuickStart, spark_home: Path) -> QuickStart:
    (quick.home / "conf").mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        link = quick.home / name
        with contextlib.suppress(FileExistsError):
            link.symlink_to(spark_home / name)
    if not quick.log_settings.exists():
        written = quick.log_settings.with_suffix(f".{os.getpid()}")
        written.write_text(LOG_SETTINGS, encoding="utf-8")
        written.replace(quick.log_settings)
    return quick


def cache(environment: Mapping[str, str]) -> Path:
    """Where we keep what Spark needs between runs."""
    base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "goqueue" / "spark"


def _key(java: Java, spark_home: Path, spark_version: str) -> str:
    parts = [str(java.home.resolve()), java.version, str(spark_home.resolve()), spark_version]
    digest = hashlib.sha256("\0".join([*parts, LOG_SETTINGS]).encode()).hexdigest()
    return f"{spark_version}-{digest[:12]}"
