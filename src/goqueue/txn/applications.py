"""Engines that commit many transactions at once: their runs, and the versions they decided.

An application (a streaming query, say) writes with many producers, and makes the work of one batch
visible by one decision, which carries the batch's number as its version.

    start_run(7)          runs below 7 are fenced from now on
    decide(version 41)    new: all its transactions are committed, and 41 is the last version
    decide(version 41)    again, after a crash: known; its transactions are a repetition
    decide(version 12)    long past: a mistake, since silence would lose what was written
"""

import msgspec

from goqueue.txn.errors import ApplicationFenced, VersionGoesBack
from goqueue.txn.records import ApplicationKept

NONE = -1


class Application(msgspec.Struct):
    run: int = NONE
    version: int = NONE  # the last one decided


class Applications:
    def __init__(self) -> None:
        self._known: dict[str, Application] = {}

    # --- asking -----------------------------------------------------------------------------------

    def find(self, name: str) -> Application | None:
        return self._known.get(name)

    def version(self, name: str) -> int:
        """The last version decided for the application; -1 for none."""
        known = self._known.get(name)
        return known.version if known else NONE

    def is_new_run(self, name: str, run: int) -> bool:
        """Whether no run like that or newer has started; an older one is refused."""
        known = self._known.get(name, Application())
        if run < known.run:
            raise ApplicationFenced(f"run {run} of {name!r}; run {known.run} has started")
        return run > known.run

    def is_new_version(self, name: str, version: int) -> bool:
        """Whether nothing was decided for the version; one that is long past is refused."""
        known = self._known.get(name, Application())
        if version < known.version - 1:
            raise VersionGoesBack(
                f"{name!r} is at version {known.version}, {version} was decided long ago:"
                " has its checkpoint been deleted? Use another application name"
            )
        return version > known.version

    # --- changing ---------------------------------------------------------------------------------

    def run_started(self, name: str, run: int) -> None:
        self._known.setdefault(name, Application()).run = run

    def decided(self, name: str, version: int) -> None:
        self._known.setdefault(name, Application()).version = version

    def keep(self, kept: ApplicationKept) -> None:
        self._known[kept.application] = Application(kept.run, kept.version)

    def kept(self) -> list[ApplicationKept]:
        return [
            ApplicationKept(name, known.run, known.version)
            for name, known in sorted(self._known.items())
        ]
