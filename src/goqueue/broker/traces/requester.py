"""Who asks: listeners say it, and whoever records what happened to a message reads it.

A task has one, and what it starts inherits it.  The broker's own tasks have none.  A connection
keeps its requester and changes it with each request: requests are handled one after the other.
"""

from contextvars import ContextVar
from typing import Final

import msgspec


class Requester(msgspec.Struct, gc=False):
    address: str
    client: str = ""
    received_ns: int = 0  # instant at which the request was there; 0: not known
    may_bring_traces: bool = True  # False: no record that is not compressed has a `traceparent`


requester: Final[ContextVar[Requester | None]] = ContextVar("requester", default=None)
