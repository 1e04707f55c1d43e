"""When a pipeline is started, stopped and tried again.

    starting ──> running ──(fails)──> retrying ──(its time has come)──> starting
       ^            │ └──(all its sinks have ended)──> finished
       │         (asked)
    (asked)<──── stopped                 invalid: its file cannot be read, and nothing runs

It is told what happened and what time it is, and says what to do.  A file that is changed while its
pipeline runs is adopted when it is sound; while it is not, the pipeline goes on as it was.
"""

from typing import Final, Literal

State = Literal["starting", "running", "retrying", "stopped", "invalid", "finished"]
Action = Literal["start", "stop"]

FIRST_WAIT_S: Final = 1.0
WAIT_MAX_S: Final = 300.0
SOUND_AFTER_S: Final = 600.0  # who ran for so long begins with the first wait again


class Supervised:
    """One pipeline."""

    def __init__(self, *, is_stopped: bool = False) -> None:
        self.state: State = "stopped" if is_stopped else "starting"
        self.restarts = 0
        self.problem: str | None = None
        self.next_try: float | None = None
        self._failures = 0
        self._version: str | None = None  # of the file, the newest that is sound
        self._running: str | None = None  # the version that runs
        self._running_since = 0.0

    def declare(self, version: str, problem: str | None = None) -> None:
        """What its file says now; `problem`: why that cannot be run."""
        if problem is not None:
            self.problem = problem
            if self._running is None and self.state != "stopped":
                self.state = "invalid"
            return
        if version == self._version:
            return
        is_first = self._version is None
        self._version = version
        self._failures = 0
        if self.state != "stopped":
            self.problem = self.next_try = None
            if not is_first or self.state == "invalid":
                self.state = "running" if self._running is not None else "starting"

    def decide(self, now: float) -> Action | None:
        if self._running is not None:
            is_wanted = self.state == "running" and self._running == self._version
            return None if is_wanted else "stop"
        if self._version is None:
            return None
        is_due = self.state == "retrying" and self.next_try is not None and now >= self.next_try
        return "start" if self.state == "starting" or is_due else None

    # --- what happened ----------------------------------------------------------------------------

    def note_started(self, now: float) -> None:
        assert self._version is not None, "what has no file is not started"
        self._running = self._version
        self._running_since = now
        self.state = "running"
        self.problem = self.next_try = None

    def note_failed(self, cause: str, now: float) -> None:
        """At its start, or later."""
        if self._running is not None and now - self._running_since >= SOUND_AFTER_S:
            self._failures = 0
        self._running = None
        self.problem = cause
        self.state = "retrying"
        self.next_try = now + min(FIRST_WAIT_S * 2**self._failures, WAIT_MAX_S)
        self._failures = min(self._failures + 1, 60)
        self.restarts += 1

    def note_invalid(self, problem: str) -> None:
        """Spark or the broker objects to the file: to try again would not help.

        It is looked at again when the file changes, or when somebody asks for a restart.
        """
        self._running = None
        self.problem = problem
        self.state = "invalid"

    def note_stopped(self) -> None:
        """The queries are, for whatever `decide` said."""
        self._running = None
        if self.state == "running":
            self.state = "starting"

    def note_finished(self) -> None:
        self._running = None
        self.state = "finished"

    # --- what operators ask for -------------------------------------------------------------------

    def ask_stop(self) -> None:
        self.state = "stopped"
        self.next_try = None

    def ask_restart(self) -> None:
        """Also what was stopped, has finished, or is waiting for its next try."""
        self._failures = 0
        self.next_try = self.problem = None
        self.state = "starting"
