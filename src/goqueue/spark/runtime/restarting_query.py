"""A streaming query that is started again where a machine was merely too busy.

Spark gives a Python process ten seconds to answer after its start, and that cannot be set.  On a
machine with a lot of other work it may not, and the query ends: "Python worker failed to connect
back".  Nothing is lost by starting it again, since it goes on from its checkpoint.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from goqueue.spark.runtime.watched_query import Query

RESTARTS_MAX: Final = 5
BUSY: Final = "Python worker failed to connect back"


class SturdyQuery:
    """Spark's query, whichever is the present one."""

    def __init__(self, start: Callable[[], Query]) -> None:
        self._start = start
        self._query = start()
        self._restarts_left = RESTARTS_MAX

    @property
    def name(self) -> str | None:
        return self._query.name

    @property
    def isActive(self) -> bool:  # noqa: N802
        """Started again if that may help."""
        while not self._query.isActive and self._restarts_left and self._was_busy():
            self._restarts_left -= 1
            self._query = self._start()
        return self._query.isActive

    def _was_busy(self) -> bool:
        return BUSY in str(self._query.exception() or "")

    @property
    def status(self) -> Mapping[str, Any]:
        return self._query.status

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:  # noqa: N802
        return self._query.lastProgress

    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]:  # noqa: N802
        return self._query.recentProgress

    def exception(self) -> BaseException | None:
        return self._query.exception()

    def awaitTermination(self) -> object:  # noqa: N802
        return self._query.awaitTermination()

    def stop(self) -> None:
        self._restarts_left = 0
        self._query.stop()
