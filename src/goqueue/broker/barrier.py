"""What a verb of several steps answers or refuses is committed: the long form of `read`.

async with barrier:          a verb looks at machines that run ahead of their logs,
    …                        as often as it likes
    return found             leaves the block when all of that is committed
"""

from types import TracebackType
from typing import Protocol

from goqueue.model.errors import GoQueueError


class Settles(Protocol):
    async def settled(self) -> None:
        """Return when everything decided so far is committed."""


class Barrier:
    """It has no state: one serves all who look at the same machines."""

    def __init__(self, *hosts: Settles) -> None:
        self._hosts = hosts

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, GoQueueError):
            for host in self._hosts:
                await host.settled()
