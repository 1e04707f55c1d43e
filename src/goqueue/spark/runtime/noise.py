"""What the JVM and its Python workers print, kept out of people's way.

They inherit our standard error when the JVM starts: warnings about incubators, and for every
failed task the traces that `causes` shortens to a sentence.  Started inside `quiet`, they write to
a file instead, which is there for whoever wants it all when a job has failed.  Started inside
`sift_output`, as by programs of one's own, they are heard but for what never means anything.
"""

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from goqueue.spark.runtime.causes import JobFailed

STDERR: Final = 2
PIPE_BYTES: Final = 65_536

INCUBATOR: Final = b"WARNING: Using incubator modules"
# Spark hangs up on the workers of a query that has all its rows, and its daemon prints a trace.
TRACE: Final = b"Traceback (most recent call last):"
FLUSH_FAILED: Final = b"PySpark daemon failed to flush the output"
HUNG_UP: Final = b"BrokenPipeError"
ITS_DAEMON: Final = (b"/pyspark/daemon.py", b"/pyspark/worker")
ANOTHER: Final = b"During handling of the above exception, another exception occurred:"
TRACE_LINES_MAX: Final = 200


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
def keep_on_failure() -> Iterator[Path]:
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


@contextlib.contextmanager
def sift_output() -> Iterator[None]:
    """What processes started inside write to standard error reaches ours through a `Sieve`."""
    sys.stderr.flush()
    ours = os.dup(STDERR)
    theirs, writing = os.pipe()
    os.dup2(writing, STDERR)
    os.close(writing)
    threading.Thread(target=_sift, args=(theirs, os.dup(ours)), daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, STDERR)
        os.close(ours)


def _sift(theirs: int, ours: int) -> None:
    sieve = Sieve()
    with contextlib.suppress(OSError), open(ours, "wb") as out:  # unless nobody listens any more
        while data := os.read(theirs, PIPE_BYTES):
            out.write(sieve.feed(data))
            out.flush()
        out.write(sieve.end())


class Sieve:
    """Lines in, and out again, without the ones that say nothing."""

    def __init__(self) -> None:
        self._rest = b""  # of a line that has no end yet
        self._trace: list[bytes] = []  # of which nobody knows yet whether it says something
        self._dropped = False  # whether the lines before were

    def feed(self, data: bytes) -> bytes:
        *lines, self._rest = (self._rest + data).split(b"\n")
        return b"".join(self._take(each + b"\n") for each in lines)

    def end(self) -> bytes:
        """What was held back."""
        held, self._trace = self._trace, []
        rest, self._rest = self._rest, b""
        return b"".join(held) + rest

    def _take(self, line: bytes) -> bytes:
        if self._trace:
            return self._take_of_trace(line)
        if line.startswith((TRACE, FLUSH_FAILED)):
            self._trace = [line]
            return b""
        if line.startswith(INCUBATOR) or (self._dropped and line.strip() in (b"", ANOTHER)):
            return b""
        self._dropped = False
        return line

    def _take_of_trace(self, line: bytes) -> bytes:
        self._trace.append(line)
        goes_on = line.startswith((b" ", b"\t", TRACE)) and len(self._trace) < TRACE_LINES_MAX
        if goes_on:
            return b""
        held, self._trace = self._trace, []
        said_by_daemon = any(each in part for part in held for each in ITS_DAEMON)
        self._dropped = line.startswith(HUNG_UP) and said_by_daemon
        return b"" if self._dropped else b"".join(held)
