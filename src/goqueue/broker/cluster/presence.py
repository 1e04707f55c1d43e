"""Whether this process may have been replaced while it did not run.

A process that was suspended (SIGSTOP, a machine that pauses) wakes up with requests in its sockets,
and believes that it still coordinates groups and transactions.  What it writes is refused, since
the other replicas follow another leader; what it would answer from memory is old.  So after an
absence nothing is answered from memory until the metadata of that moment is here: it tells what
others have taken over.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from goqueue.cluster.consensus import Index
from goqueue.model.errors import GoQueueError
from goqueue.runtime import Clock

LOOK_SECONDS: Final = 0.1
FOLLOW_SECONDS: Final = 0.01
FOLLOW_LOOKS: Final = 100

_log = structlog.get_logger("goqueue.cluster")


class Presence:
    def __init__(
        self,
        clock: Clock,
        newest: Callable[[], Awaitable[Index]],
        shown: Callable[[], Index],
        session_ns: int,
    ) -> None:
        """`newest` asks for the end of the metadata's log; what is below `shown` is known here."""
        self._clock = clock
        self._newest = newest
        self._shown = shown
        self._absence_ns = session_ns // 2  # heartbeats before it may have been late
        self._ran_at = clock.instant()
        self._absences = 0
        self._returned = 0  # from so many of them

    @property
    def is_current(self) -> bool:
        self._look()
        return self._returned == self._absences

    def _look(self) -> None:
        now = self._clock.instant()
        if now - self._ran_at >= self._absence_ns:
            self._absences += 1
        self._ran_at = now

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if not self.is_current:
                try:
                    await self._catch_up()
                except GoQueueError as error:  # tried again at the next look
                    _log.warning("away, and the metadata cannot be asked", problem=str(error))
            await self._clock.sleep(LOOK_SECONDS)

    async def _catch_up(self) -> None:
        absences = self._absences
        end = await self._newest()
        for _ in range(FOLLOW_LOOKS):
            if self._shown() >= end:
                self._returned = absences
                return
            await self._clock.sleep(FOLLOW_SECONDS)
