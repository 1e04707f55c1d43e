"""A client that works in a thread of its own until it is ended, and writes down what it sees."""

import threading
import time
from pathlib import Path
from traceback import format_exception
from typing import Final, TextIO

import msgspec

END_S: Final = 60.0


class HistoryFile:
    """Facts as JSON lines, in the order in which they were noted; kept when a check fails."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()

    def note(self, what: str, **facts: object) -> None:
        line = msgspec.json.encode({"at": time.monotonic(), "what": what, **facts}).decode()
        with self._lock:
            if not self._file.closed:
                self._file.write(line + "\n")

    def close(self) -> None:
        with self._lock:
            self._file.close()


class Load:
    """`step` is called again and again; what it raises ends the load, and fails the test."""

    def __init__(self, name: str, histories: Path) -> None:
        self.name = name
        self.file = HistoryFile(histories / f"{name}.jsonl")
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_end(self) -> None:
        self._ended.set()

    def end(self) -> None:
        self.ask_to_end()
        self._thread.join(END_S)
        assert not self._thread.is_alive(), f"{self.name} hangs"
        self.file.close()
        self.check_alive()

    def check_alive(self) -> None:
        if self._failure is not None:
            raise AssertionError(f"{self.name} failed: {self._failure!r}") from self._failure

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """What the thread does at its end."""

    @property
    def is_ending(self) -> bool:
        return self._ended.is_set()

    def pause(self, seconds: float) -> None:
        """Shorter when it is ended."""
        self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            while not self.is_ending:
                self.step()
            self.close()
        except BaseException as error:
            self._failure = error
            self.file.note("failed", problem="".join(format_exception(error)))
