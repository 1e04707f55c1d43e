"""A consensus log in simulated time: what its contract allows, and nothing kinder.

`SimQuorum` is what the voters agree on; `SimConsensusLog` is one node's way to it.  Every request
takes its time, there and back.  A node that is cut off gets no answer, and what it sent before may
still arrive.  With `lose` some answers are lost although nothing is cut: half of these requests
take effect, at once or after the caller has given up.  With `delay_follow` a node hears late what
was committed, though it gets its answers: its watch is a stream of its own.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from goqueue.cluster.consensus import Entries, Index, Leadership, Member, Snapshot, Term
from goqueue.model.errors import Fenced, GoQueueError, QuorumUnavailable, Uncertain

T = TypeVar("T")

GIVE_UP_SECONDS: Final = 5.0
TRAVEL_SECONDS: Final = (0.0005, 0.02)
LATE_SECONDS: Final = (0.0, 4 * GIVE_UP_SECONDS)  # of a request whose answer is lost


class SimQuorum:
    """Changes only in one step at a time, so it is linearizable by itself."""

    def __init__(self, seed: int | str = 0, *, lose: float = 0.0) -> None:
        self.random = random.Random(f"{seed}/quorum")
        self.lose = lose  # probability that an answer is lost
        self.term = Term(0)
        self.batches: list[Entries] = []
        self.snapshot: Snapshot | None = None
        self._cut: set[str] = set()
        self._follow_seconds: dict[str, float] = {}  # by node, beside the way there and back
        self._changed = asyncio.Event()

    def connect(self, node: str) -> "SimConsensusLog":
        return SimConsensusLog(self, node)

    def cut(self, node: str) -> None:
        """Nothing goes to the node or comes from it, until `heal`."""
        self._cut.add(node)

    def delay_follow(self, node: str, seconds: float) -> None:
        """What the node follows comes so much later, until `heal`."""
        self._follow_seconds[node] = seconds

    def follow_seconds(self, node: str) -> float:
        return self._follow_seconds.get(node, 0.0)

    def heal(self) -> None:
        self._cut.clear()
        self._follow_seconds.clear()
        self.notify()

    def is_cut(self, node: str) -> bool:
        return node in self._cut

    # --- what happens at the quorum ---------------------------------------------------------------

    @property
    def end(self) -> Index:
        return self.batches[-1].next if self.batches else self._start

    @property
    def _start(self) -> Index:
        return self.snapshot.index if self.snapshot else Index(0)

    def lead(self, before: Term) -> Term | None:
        """The next term, if the newest is still `before`: a request that is late takes none."""
        if before != self.term:
            return None
        self.term = Term(self.term + 1)
        return self.term

    def append(self, term: Term, entries: Entries) -> None:
        if term != self.term:
            raise Fenced(f"term {term} has ended, it is {self.term}")
        assert entries.first == self.end, "a leader knows the end"
        self.batches.append(entries)
        self.notify()

    def store(self, term: Term, snapshot: Snapshot) -> None:
        if term != self.term:
            raise Fenced(f"term {term} has ended, it is {self.term}")
        assert snapshot.index <= self.end, "a snapshot of what is not committed"
        if self.snapshot and snapshot.index < self.snapshot.index:
            return  # it was late
        self.snapshot = snapshot
        self.batches = [each for each in self.batches if each.next > snapshot.index]

    def read_from(self, position: Index) -> list[Snapshot | Entries]:
        first = self.batches[0].first if self.batches else self._start
        seen: list[Snapshot | Entries] = []
        if self.snapshot and self.snapshot.index > position and (position < first or not position):
            seen.append(self.snapshot)
            position = self.snapshot.index
        for each in self.batches:
            skipped = max(0, position - each.first)
            if skipped < len(each.values):
                seen.append(Entries(Index(each.first + skipped), each.values[skipped:]))
        return seen

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_change(self) -> None:
        await self._changed.wait()


class SimConsensusLog:
    """See `ConsensusLog`."""

    def __init__(self, quorum: SimQuorum, node: str) -> None:
        self._quorum = quorum
        self._node = node
        self._term: Term | None = None  # while this client leads
        self._next = Index(0)
        self._unsent: deque[tuple[Entries, asyncio.Future[None]]] = deque()
        self._sending = asyncio.Lock()
        self._late: set[asyncio.TimerHandle] = set()

    @property
    def name(self) -> str:
        return f"simulated quorum, {self._node}"

    @property
    def failed(self) -> str | None:
        return None

    async def close(self) -> None:
        pass

    async def members(self) -> Sequence[Member]:
        return [Member("model", "", True)]

    async def lead(self, after: Term | None = None) -> Leadership:
        self._end_term(Fenced("this node took a newer term"))
        try:
            term = None
            while term is None:
                before = await self._ask(lambda: self._quorum.term)
                if after is not None and before != after:
                    raise Fenced(f"another node has taken term {before}")
                term = await self._ask(partial(self._quorum.lead, before))
            self._next, snapshot = await self._ask(
                lambda: (self._quorum.end, self._quorum.snapshot)
            )
        except Uncertain as error:
            raise QuorumUnavailable(str(error)) from error
        self._term = term
        return Leadership(term, self._next, snapshot is not None)

    async def term(self) -> Term:
        try:
            return await self._ask(lambda: self._quorum.term)
        except Uncertain as error:
            raise QuorumUnavailable(str(error)) from error

    async def end(self) -> Index:
        try:
            return await self._ask(lambda: self._quorum.end)
        except Uncertain as error:
            raise QuorumUnavailable(str(error)) from error

    def append(self, term: Term, at: Index, values: Sequence[bytes]) -> Awaitable[None]:
        self._check_term(term)
        assert at == self._next, f"append at {at}, the log ends at {self._next}"
        entries, outcome = Entries(at, list(values)), asyncio.get_running_loop().create_future()
        self._next = entries.next
        self._unsent.append((entries, outcome))
        return self._commit(term, outcome)

    async def _commit(self, term: Term, outcome: "asyncio.Future[None]") -> None:
        async with self._sending:
            while not outcome.done():
                await self._send(term, *self._unsent.popleft())
        outcome.result()

    async def _send(self, term: Term, entries: Entries, outcome: "asyncio.Future[None]") -> None:
        error: GoQueueError = Uncertain("the append was cancelled on its way")
        try:
            await self._ask(lambda: self._quorum.append(term, entries))
            outcome.set_result(None)
        except GoQueueError as problem:
            error = problem
        finally:
            if not outcome.done():
                outcome.set_exception(error)
                self._end_term(Fenced(f"not written, an append before it failed: {error}"))

    async def follow(self, start: Index) -> AsyncGenerator[Snapshot | Entries, None]:
        position = start
        while True:
            late = self._quorum.follow_seconds(self._node)
            await asyncio.sleep(late + self._quorum.random.uniform(*TRAVEL_SECONDS))
            if self._quorum.is_cut(self._node):
                await self._quorum.wait_change()
                continue
            seen = self._quorum.read_from(position)
            for each in seen:
                position = each.index if isinstance(each, Snapshot) else each.next
                yield each
            if not seen:
                await self._quorum.wait_change()

    async def store_snapshot(self, term: Term, at: Index, slices: Iterable[Sequence[bytes]]) -> int:
        self._check_term(term)
        values: list[bytes] = []
        for some in slices:
            values += some
            await asyncio.sleep(0)
        async with self._sending:
            while self._unsent:
                await self._send(term, *self._unsent.popleft())
        self._check_term(term)
        size = sum(map(len, values))
        snapshot = Snapshot(at, values, size)
        await self._ask(lambda: self._quorum.store(term, snapshot))
        return size

    def _check_term(self, term: Term) -> None:
        if term != self._term:
            raise Fenced(f"term {term} has ended")

    def _end_term(self, reason: Fenced) -> None:
        self._term = None
        for _, outcome in self._unsent:
            outcome.set_exception(reason)
            outcome.exception()  # it may have nobody who looks
        self._unsent.clear()

    # --- requests on their way --------------------------------------------------------------------

    async def _ask(self, change: Callable[[], T]) -> T:
        quorum, draw = self._quorum, self._quorum.random
        await asyncio.sleep(draw.uniform(*TRAVEL_SECONDS))
        if quorum.is_cut(self._node):
            await asyncio.sleep(GIVE_UP_SECONDS)
            raise QuorumUnavailable("cut off from the quorum")
        if draw.random() < quorum.lose:
            if draw.random() < 0.5:
                self._arrive_late(change, draw.uniform(*LATE_SECONDS))
            await asyncio.sleep(GIVE_UP_SECONDS)
            raise Uncertain("no answer from the quorum")
        result = change()
        await asyncio.sleep(draw.uniform(*TRAVEL_SECONDS))
        if quorum.is_cut(self._node):
            await asyncio.sleep(GIVE_UP_SECONDS)
            raise Uncertain("the answer of the quorum was lost")
        return result

    def _arrive_late(self, change: Callable[[], object], seconds: float) -> None:
        def arrive() -> None:
            self._late.discard(handle)
            try:
                change()
            except Fenced:
                return  # as it should be

        handle = asyncio.get_running_loop().call_later(seconds, arrive)
        self._late.add(handle)
