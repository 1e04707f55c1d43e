"""The consensus log: a log of small entries that the nodes of a cluster agree on.

One node at a time appends: the one that holds the newest term.  Taking a newer term fences the
older one, so that two nodes which both believe to lead never both append.  Entries that are
committed stay, in their order, without gaps; everybody may follow them.

    lead() ──> term 7, end 120       nobody with a term below 7 can append any more
    append(7, at=120, …)             committed │ Fenced │ Uncertain
    follow(0)                        Snapshot(118), Entries(118, …), and on as they come

What an append leads to:

    committed   durable on a majority of the voters; every follower will see it
    Fenced      not written, and never will be: this term has ended
    Uncertain   nobody answered in time: it may be in the log, or be there later.  The term has
                ended as well.  To find out: `lead` again, and read.  Under the newer term the
                older append takes effect no more, so what is there then is the whole truth.

So a leader has one way on after any failure, and never writes an entry twice or loses one that it
told anybody about.  Engines: `goqueue.broker.metadata.local_log` (one voter, this node's own log),
`goqueue.cluster.consensus.etcd` (several machines), `goqueue.testing.sim.consensus` (a model).
"""

from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from typing import NewType, Protocol

import msgspec

Term = NewType("Term", int)  # rises with every leader
Index = NewType("Index", int)  # of an entry, counted from 0


class Leadership(msgspec.Struct, frozen=True):
    term: Term
    end: Index  # of the log: where this leader goes on
    has_snapshot: bool


class Entries(msgspec.Struct, frozen=True):
    """Committed entries one after the other; those of one append never come apart halfway."""

    first: Index
    values: Sequence[bytes]

    @property
    def next(self) -> Index:
        return Index(self.first + len(self.values))


class Snapshot(msgspec.Struct, frozen=True):
    """What stands for all entries below `index`; a follower that gets one starts over with it."""

    index: Index
    values: Sequence[bytes]
    bytes: int  # as it is stored


class Member(msgspec.Struct, frozen=True):
    """A voter of the log."""

    name: str
    address: str
    is_leader: bool
    problem: str = ""  # why it did not answer


class ConsensusLog(Protocol):
    @property
    def name(self) -> str:
        """For people."""

    @property
    def failed(self) -> str | None:
        """Why nothing can be appended here any more, whatever the term."""

    async def lead(self, after: Term | None = None) -> Leadership:
        """With a term above all earlier ones: from now on nobody with one of those can append.

        With `after` only as long as that is the newest one (0: none was taken yet).  Raises
        `Fenced` when somebody has taken a newer one, and `QuorumUnavailable`: others may have lost
        their term by then, but none that is taken later is lost by it.
        """

    async def term(self) -> Term:
        """The newest one that anybody took; 0: nobody did.  Raises `QuorumUnavailable`."""

    def append(self, term: Term, at: Index, values: Sequence[bytes]) -> Awaitable[None]:
        """Write all values or none, the first one at the index `at`, the end of the log.

        What is raised at once, was not written (`Fenced`, `DiskFull`, `PolicyViolation` for too
        much at a time), and the term goes on unless it is `Fenced`.  What it gives must be awaited,
        and says what became of it.  The next append need not wait for that.
        """

    async def end(self) -> Index:
        """The index after the last entry: everything committed before the call is below it.

        Raises `QuorumUnavailable`.
        """

    def follow(self, start: Index) -> AsyncGenerator[Snapshot | Entries, None]:
        """All committed entries from `start` on, now and as they come.

        A snapshot comes first for whoever has nothing (`start` is 0), and when the entries there
        are gone.  While no majority can be asked, nothing comes.
        """

    async def store_snapshot(self, term: Term, at: Index, slices: Iterable[Sequence[bytes]]) -> int:
        """Let `slices` stand for all entries below `at`, which may go then; gives its bytes.

        Between two slices others have their turn.  It counts once all entries below `at` are
        committed.  Raises `Fenced`, `Uncertain` or `QuorumUnavailable`; nothing is lost by it.
        """

    async def members(self) -> Sequence[Member]: ...

    async def close(self) -> None: ...
