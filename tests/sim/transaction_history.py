"""What clients saw of transactions, and what is wrong with it.

Every record's value is unique, so a history needs no more than: which transaction wrote what, how
each transaction ended as far as its producer knows, and what readers saw, when.

    lost write           committed, acknowledged, and not there at the end
    aborted read         seen by a reader, though its transaction was aborted
    intermediate read    seen before its transaction was asked to commit, or only a part of it
    duplicate            one write, two offsets
    non-monotonic poll   a reader's offsets went back or stood still
    wrong offset         acknowledged at one offset, found at another
"""

import enum
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

Place = tuple[str, int]


class Anomaly(enum.StrEnum):
    LOST_WRITE = "lost write"
    ABORTED_READ = "aborted read"
    INTERMEDIATE_READ = "intermediate read"
    DUPLICATE = "duplicate"
    NON_MONOTONIC_POLL = "non-monotonic poll"
    WRONG_OFFSET = "wrong offset"


class End(enum.Enum):
    UNKNOWN = enum.auto()  # nobody answered, or it was not asked for
    COMMITTED = enum.auto()
    ABORTED = enum.auto()


@dataclass
class Written:
    """One transaction, from its producer's side."""

    number: int
    producer: str
    end: End = End.UNKNOWN
    moves_offset: bool = False  # of a group, to its number
    commit_asked_at: float | None = None  # when its producer first asked for that
    writes: dict[bytes, Place] = field(default_factory=dict)  # all that were ever sent
    acked: dict[bytes, int] = field(default_factory=dict)  # to their offsets


@dataclass(frozen=True)
class Seen:
    reader: str
    at: float
    place: Place
    offset: int
    value: bytes


class History:
    def __init__(self) -> None:
        self.transactions: list[Written] = []
        self.seen: list[Seen] = []
        self.final: list[Seen] = []  # one reader's whole view, when all is over

    def begin(self, producer: str) -> Written:
        written = Written(len(self.transactions), producer)
        self.transactions.append(written)
        return written

    # --- judging ----------------------------------------------------------------------------------

    def anomalies(self) -> dict[Anomaly, list[str]]:
        found: defaultdict[Anomaly, list[str]] = defaultdict(list)
        for anomaly, text in self._all():
            found[anomaly].append(text)
        return dict(found)

    def _all(self) -> Iterator[tuple[Anomaly, str]]:
        yield from self._find_lost()
        yield from self._find_aborted()
        yield from self._intermediate()
        yield from self._duplicates()
        yield from self._non_monotonic()
        yield from self._wrong_offsets()

    def _owners(self) -> dict[bytes, Written]:
        return {value: each for each in self.transactions for value in each.writes}

    def _find_lost(self) -> Iterator[tuple[Anomaly, str]]:
        visible = {seen.value for seen in self.final}
        for each in self.transactions:
            if each.end is End.COMMITTED:
                for value in each.acked.keys() - visible:
                    yield Anomaly.LOST_WRITE, f"{value!r} of committed transaction {each.number}"

    def _find_aborted(self) -> Iterator[tuple[Anomaly, str]]:
        """Also what somebody saw and nobody will see again: it was not committed after all."""
        owners, visible = self._owners(), {seen.value for seen in self.final}
        for seen in (*self.seen, *self.final):
            owner = owners[seen.value]
            if owner.end is End.ABORTED or seen.value not in visible:
                yield Anomaly.ABORTED_READ, f"{seen.reader} saw {seen.value!r} of {owner.number}"

    def _intermediate(self) -> Iterator[tuple[Anomaly, str]]:
        owners, visible = self._owners(), {seen.value for seen in self.final}
        for seen in self.seen:
            asked_at = owners[seen.value].commit_asked_at
            if asked_at is None or seen.at < asked_at:
                yield Anomaly.INTERMEDIATE_READ, f"{seen.reader} saw {seen.value!r} too early"
        for each in self.transactions:
            part = each.acked.keys() & visible
            if part and part != each.acked.keys():
                yield Anomaly.INTERMEDIATE_READ, f"only {sorted(part)} of {each.number} is visible"

    def _duplicates(self) -> Iterator[tuple[Anomaly, str]]:
        offsets: defaultdict[bytes, set[tuple[Place, int]]] = defaultdict(set)
        for seen in (*self.seen, *self.final):
            offsets[seen.value].add((seen.place, seen.offset))
        for value, places in offsets.items():
            if len(places) > 1:
                yield Anomaly.DUPLICATE, f"{value!r} at {sorted(places)}"

    def _non_monotonic(self) -> Iterator[tuple[Anomaly, str]]:
        last: dict[tuple[str, Place], int] = {}
        for seen in (*self.seen, *self.final):
            key = seen.reader, seen.place
            if seen.offset <= last.get(key, -1):
                yield Anomaly.NON_MONOTONIC_POLL, f"{key}: {seen.offset} after {last[key]}"
            last[key] = seen.offset

    def _wrong_offsets(self) -> Iterator[tuple[Anomaly, str]]:
        owners = self._owners()
        for seen in self.final:
            acked = owners[seen.value].acked.get(seen.value)
            if acked is not None and acked != seen.offset:
                yield Anomaly.WRONG_OFFSET, f"{seen.value!r}: told {acked}, found at {seen.offset}"
