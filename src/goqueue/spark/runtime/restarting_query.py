"""A streaming query that is started again where a machine was merely too busy.

Spark gives a Python process ten seconds to answer after its start, and that cannot be set.  On a
machine with a lot of other work it may not, and the query ends: "Python worker failed to connect
back".  Nothing is lost by starting it again, since it goes on from its checkpoint.
"""

from collections.abc import Callable
from typing import Final

from goqueue.spark.runtime.query import Query, StandInQuery

RESTARTS_MAX: Final = 5
BUSY: Final = "Python worker failed to connect back"


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

    def stop(self) -> None:
        self._restarts_left = 0
        super().stop()
