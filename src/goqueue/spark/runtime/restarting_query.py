"""A streaming query that can be started again: it goes on from its checkpoint, and loses nothing.

Where a machine was merely too busy, it is started again by itself.  Spark gives a Python process
ten seconds to answer after its start, and that cannot be set.  On a machine with a lot of other
work it may not, and the query ends: "Python worker failed to connect back".

Somebody who has too many of them parks those that have nothing to do: a parked query is closed,
with the Python process of each of its sources and all that the JVM keeps for it.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from goqueue.spark.runtime.causes import errors_of_spark
from goqueue.spark.runtime.query import Query, StandInQuery

RESTARTS_MAX: Final = 5
BUSY: Final = "Python worker failed to connect back"
PARKED: Final = "Parked"


class ParkedQuery:
    """What is left of a query that was closed, until it is started again."""

    status: Final[Mapping[str, Any]] = {
        "message": PARKED,
        "isDataAvailable": False,
        "isTriggerActive": False,
    }
    lastProgress: Final = None  # noqa: N815 -- Spark's name
    recentProgress: Final[Sequence[Mapping[str, Any]]] = ()  # noqa: N815 -- Spark's name
    isActive: Final = True  # noqa: N815 -- Spark's name; it has not ended

    def __init__(self, name: str | None) -> None:
        self.name = name

    def exception(self) -> None:
        return None

    def awaitTermination(self) -> None:  # noqa: N802 -- Spark's name
        return None

    def stop(self) -> None:
        """It is closed."""


class RestartingQuery(StandInQuery):
    """Stands in for whichever query is the present one."""

    def __init__(self, start: Callable[[], Query]) -> None:
        super().__init__(start())
        self._start = start
        self._restarts_left = RESTARTS_MAX

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Started again if that may help."""
        while not self.query.isActive and self._restarts_left and self._was_busy():
            self._restarts_left -= 1
            self.query = self._start()
        return self.query.isActive

    def _was_busy(self) -> bool:
        return BUSY in str(self.query.exception() or "")

    def park(self) -> None:
        """Close it.  A micro-batch under way is dropped; the next one begins with it."""
        query, self.query = self.query, ParkedQuery(self.query.name)
        with contextlib.suppress(*errors_of_spark()):  # an interrupted batch may have its own
            query.stop()

    def wake(self) -> None:
        """Start it where it was; raises what Spark and the broker raise."""
        self.query = self._start()
        self._restarts_left = RESTARTS_MAX

    def stop(self) -> None:
        self._restarts_left = 0
        super().stop()
