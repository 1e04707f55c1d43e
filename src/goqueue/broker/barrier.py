"""Holds the answer of an operation until everything that it has read is committed.

It is `MachineHost.read` for operations of several steps:

    async with barrier:      reads machines, which run ahead of their logs, as often as needed;
        …                    the block ends when all that was decided before is committed,
        return found         also if the operation refuses
"""

import functools
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from goqueue.model.errors import GoQueueError, TimedOut

ArgsT = ParamSpec("ArgsT")
ReplyT = TypeVar("ReplyT")


class Settles(Protocol):
    async def wait_settled(self) -> None:
        """Return when everything decided so far is committed."""


class SettlesAbout(Protocol):
    async def wait_settled(self, about: object = None, /) -> None:
        """As `Settles`, of what concerns the first argument of the method that refused."""


SettlesT = TypeVar("SettlesT", bound=SettlesAbout)


class Barrier:
    """It has no state: one serves all who look at the same machines."""

    def __init__(self, *hosts: Settles) -> None:
        self._hosts = hosts

    async def wait_settled(self) -> None:
        """Return when everything decided so far is committed."""
        for host in self._hosts:
            await host.wait_settled()

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, GoQueueError):
            await self.wait_settled()


def settle_refusals(
    verb: Callable[Concatenate[SettlesT, ArgsT], Awaitable[ReplyT]],
) -> Callable[Concatenate[SettlesT, ArgsT], Awaitable[ReplyT]]:
    """Have a method's refusals raised when all that they may rest on is committed."""

    @functools.wraps(verb)
    async def call(self: SettlesT, /, *args: ArgsT.args, **named: ArgsT.kwargs) -> ReplyT:
        try:
            return await verb(self, *args, **named)
        except TimedOut:
            raise  # it rests on nothing that was decided, and the log may be what is slow
        except GoQueueError:
            await self.wait_settled(*args[:1])
            raise

    return call
