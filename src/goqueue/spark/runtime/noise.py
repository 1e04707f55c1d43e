"""What the JVM and its Python workers print, kept out of people's way.

They inherit our standard error when the JVM starts: warnings about incubators, and for every
failed task the traces that `causes` shortens to a sentence.  Started inside `quiet`, they write to
a file instead, which is there for whoever wants it all when a job has failed.
"""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from goqueue.spark.runtime.causes import JobFailed

STDERR: Final = 2


@contextlib.contextmanager
def quiet(log: Path) -> Iterator[None]:
    """Processes started inside have `log` as their standard error, for as long as they live."""
    sys.stderr.flush()
    ours = os.dup(STDERR)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), STDERR)
        yield
    finally:
        os.dup2(ours, STDERR)
        os.close(ours)


@contextlib.contextmanager
def kept_on_failure() -> Iterator[Path]:
    """A file that stays only when the job inside fails."""
    handle, name = tempfile.mkstemp(prefix="goqueue-spark-", suffix=".log")
    os.close(handle)
    log = Path(name)
    try:
        yield log
    except JobFailed:
        raise
    except BaseException:
        log.unlink(missing_ok=True)
        raise
    log.unlink(missing_ok=True)
