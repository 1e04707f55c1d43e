"""Which stream sent which event, so that a client which lost its connection can go on.

`Last-Event-ID` says what arrived last.  What was sent after it on the same stream got lost on the
way.  What arrived stays with the client, which may be working on it.

The newest events of all streams together are remembered, in memory: after a restart of the server,
or many events later, lost messages are redelivered when their visibility time-out is over.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import takewhile
from typing import Final, Protocol

EVENTS_MAX: Final = 100_000  # about 15 MB, and a few milliseconds to look through


class Stream(Protocol):
    """What a client was connected to."""

    @property
    def queue(self) -> tuple[str, str]:
        """Topic and group."""
        ...

    def end(self) -> None: ...


class SentEvents:
    def __init__(self, run: str) -> None:
        """`run` tells this server's run from earlier ones, whose ids mean nothing here."""
        self._run = run
        self._sent: OrderedDict[str, Stream] = OrderedDict()  # by event id, the newest last
        self._streams = 0

    def opening_id(self) -> str:
        """An id for the start of a stream: who comes back with it has seen no message."""
        self._streams += 1
        return f"opening-{self._run}-{self._streams}"

    def note(self, stream: Stream, ids: Iterable[str]) -> None:
        self._sent.update(dict.fromkeys(ids, stream))
        while len(self._sent) > EVENTS_MAX:
            self._sent.popitem(last=False)

    def take_lost(self, last_id: str, queue: tuple[str, str]) -> list[str]:
        """What was sent behind `last_id` on its stream, in order; that stream ends by this."""
        former = self._sent.get(last_id)
        if former is None or former.queue != queue:
            return []
        former.end()
        newer = takewhile(lambda each: each != last_id, reversed(self._sent))
        lost = [each for each in newer if self._sent[each] is former]
        for each in lost:
            del self._sent[each]
        return lost[::-1]
