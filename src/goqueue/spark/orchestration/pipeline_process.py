"""`goqueue pipeline run FILE --once` as a process, told line by line how far it is."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, Final

import msgspec

from goqueue.client.errors import ClientError
from goqueue.spark.runtime.progress import Progress

STOP_SECONDS: Final = 60.0
ERROR_CHARACTERS_MAX: Final = 4_000


class PipelineFailed(ClientError):
    """It ended with an error; the text is what it said."""


class PipelineProcess:
    """One run: what is there is processed, and the process ends."""

    def __init__(
        self,
        file: str,
        *,
        bootstrap: str | None = None,
        settings: Mapping[str, str] | None = None,
        python: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`python`: one that has `goqueue[spark]`, if ours does not; `settings` are Spark's."""
        self._command = make_command(python or sys.executable, file, bootstrap, settings or {})
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, tell: Callable[[Progress], None] = lambda _: None) -> list[Progress]:
        """How far each sink came; raises `PipelineFailed`."""
        newest: dict[str, Progress] = {}
        with tempfile.TemporaryFile() as errors, self._start(errors) as process:
            for each in _reports(process):
                newest[each.name] = each
                tell(each)
            code = process.wait()
            if code:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip()[-ERROR_CHARACTERS_MAX:]
                raise PipelineFailed(said or f"the pipeline ended with code {code}")
        return list(newest.values())

    def stop(self) -> None:
        """In good order; a run that does not end within a minute is killed."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        _kill_group(process)

    @contextlib.contextmanager
    def _start(self, errors: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        self._process = subprocess.Popen(
            self._command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=self._environment,
            start_new_session=True,  # its JVM and its workers end with it
        )
        try:
            yield self._process
        finally:
            _kill_group(self._process)
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()


def make_command(
    python: str, file: str, bootstrap: str | None, settings: Mapping[str, str]
) -> Sequence[str]:
    command = [python, "-m", "goqueue", "pipeline", "run", file, "--once", "--output", "json"]
    if bootstrap is not None:
        command += ["--bootstrap", bootstrap]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return command


def _reports(process: "subprocess.Popen[bytes]") -> Iterator[Progress]:
    """Lines that are something else are left out."""
    assert process.stdout is not None, "it is a pipe"
    for line in process.stdout:
        with contextlib.suppress(msgspec.DecodeError):
            found: Any = msgspec.json.decode(line, type=Progress)
            yield found


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """With all that it started, whether or not it has ended itself."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
