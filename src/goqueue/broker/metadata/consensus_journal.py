"""The journal of the controller: a consensus log, under one term.

The host of the machine appends and goes on; what it appended is committed, or the term has ended.
Then nothing can be appended any more, the machine is ahead of the log for good, and `on_lost` is
called: the machine is to be dropped.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final

from goqueue.broker.journal import ReadValues, StoredSnapshot
from goqueue.cluster.consensus import ConsensusLog, Entries, Index, Leadership, Snapshot, Term
from goqueue.model.errors import Fenced, GoQueueError, QuorumUnavailable, StorageFailed, Uncertain
from goqueue.model.ids import Epoch, Offset

START: Final = Index(0)
LOST: Final = (Fenced, Uncertain, QuorumUnavailable)  # they end the term


class ConsensusJournal:
    """See `Journal`; an offset of it is an index of the log."""

    def __init__(self, log: ConsensusLog, lead: Leadership, on_lost: Callable[[], None]) -> None:
        self._log = log
        self.term = lead.term
        self._has_snapshot = lead.has_snapshot
        self._end = Offset(lead.end)
        self._committed = self._end  # the first offset that is not
        self._outcomes: deque[tuple[Offset, asyncio.Future[None]]] = deque()  # by the end of each
        self._on_lost = on_lost
        self._error: GoQueueError | None = None
        self._snapshot: Snapshot | None = None  # the one that is being read

    @classmethod
    def of_follower(
        cls, log: ConsensusLog, reason: GoQueueError, at: Index = START
    ) -> "ConsensusJournal":
        """Of a node that does not have the term."""
        journal = cls(log, Leadership(Term(0), at, False), lambda: None)
        journal._error = reason
        return journal

    @property
    def name(self) -> str:
        return self._log.name

    @property
    def end_offset(self) -> Offset:
        return self._end

    @property
    def epoch(self) -> Epoch:
        return Epoch(self.term)

    @property
    def committed_end(self) -> Offset:
        """The first offset that is not committed."""
        self._advance()
        return self._committed

    @property
    def error(self) -> GoQueueError | None:
        """What ended the term, or this node's part in it."""
        self._advance()  # the callback may come later than whoever waited
        return self._error

    @property
    def failed(self) -> str | None:
        return str(self._error) if self._error is not None else self._log.failed

    def note_followed(self, end: Index) -> None:
        """Another node has committed everything below."""
        self._end = self._committed = Offset(end)

    def end_term(self, reason: GoQueueError) -> None:
        """Nothing is appended any more, whatever the log would say."""
        if self._error is None:
            self._fail(reason)

    # --- writing ----------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes]) -> Offset:
        if self._error is not None:
            raise self._refusal()
        work = self._log.append(self.term, Index(self._end), values)
        outcome = asyncio.ensure_future(work)  # rule-ok: `close` waits for it
        self._end = Offset(self._end + len(values))
        self._outcomes.append((self._end, outcome))
        outcome.add_done_callback(lambda _: self._advance())
        return Offset(self._end - 1)

    def is_committed(self, offset: Offset) -> bool:
        self._advance()  # the callback may come later than whoever waited
        return offset < self._committed

    @property
    def has_uncommitted(self) -> bool:
        self._advance()
        return self._committed < self._end

    def wait_committed(self, offset: Offset) -> asyncio.Future[None]:
        """Cancelling it cancels nobody's append."""
        if not self.is_committed(offset):
            awaited = None
            for end, outcome in reversed(self._outcomes):  # mostly the last one
                if end <= offset:
                    break
                awaited = outcome
            if awaited is not None:
                return asyncio.shield(awaited)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if offset < self._committed:
            done.set_result(None)
        else:
            done.set_exception(self._refusal())
        return done

    def demand_sync(self) -> None:
        """Everything is on its way already."""

    async def close(self) -> None:
        """Return when the outcome of everything is known, whatever it is."""
        if self._outcomes:
            await asyncio.wait([outcome for _, outcome in self._outcomes])

    def _advance(self) -> None:
        while self._outcomes and self._outcomes[0][1].done():
            end, outcome = self._outcomes.popleft()
            error = Uncertain("cancelled") if outcome.cancelled() else outcome.exception()
            if error is None and self._error is None:
                self._committed = end
            elif self._error is None:
                assert isinstance(error, GoQueueError), error
                self._fail(error)

    def _refusal(self) -> GoQueueError:
        """For what has not been appended, or is not known any more."""
        if isinstance(self._error, Fenced):
            return Fenced(f"this node is not the controller: {self._error}")
        if isinstance(self._error, LOST):
            return QuorumUnavailable(f"the controller waits for its quorum: {self._error}")
        return StorageFailed(f"{self.name} is read-only: {self.failed}")

    def _fail(self, error: GoQueueError) -> None:
        self._error = error
        if isinstance(error, LOST):
            self._on_lost()

    # --- reading ----------------------------------------------------------------------------------

    async def read(self, offset: Offset) -> AsyncIterator[ReadValues]:
        if offset >= self._end:
            return
        async with contextlib.aclosing(self._log.follow(Index(offset))) as found:
            async for each in found:
                assert isinstance(each, Entries), "what is behind a snapshot is there"
                yield ReadValues(list(each.values), sum(map(len, each.values)))
                if each.next >= self._end:
                    return

    # --- snapshots --------------------------------------------------------------------------------

    async def newest_snapshot(self) -> StoredSnapshot | None:
        if not self._has_snapshot:
            return None
        async with contextlib.aclosing(self._log.follow(Index(0))) as found:
            first = await anext(found)
        assert isinstance(first, Snapshot), "it comes first"
        self._snapshot = first
        return StoredSnapshot(Offset(first.index), first.bytes)

    async def read_snapshot(self, snapshot: StoredSnapshot) -> AsyncIterator[Sequence[bytes]]:
        found, self._snapshot = self._snapshot, None
        assert found is not None, "the newest one is looked for first"
        assert found.index == Index(snapshot.offset), "it is another one"
        yield found.values

    async def store_snapshot(
        self, offset: Offset, slices: Iterable[Sequence[bytes]]
    ) -> StoredSnapshot:
        try:
            size = await self._log.store_snapshot(self.term, Index(offset), slices)
        except Fenced as error:
            if self._error is None:
                self._fail(error)
            raise
        return StoredSnapshot(offset, size)
