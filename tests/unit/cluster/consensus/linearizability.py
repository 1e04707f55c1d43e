"""Is there an order in which a consensus log could have done what its clients saw?

The search is that of Wing and Gong, with Lowe's memory: take any operation that began before all
others that are left have ended, see whether its result fits the state, and go on; go back when
nothing fits.  What was done and the state it led to are remembered, so no two ways are walked to
the same place.  An operation whose outcome nobody knows may take effect at any time after it began,
or never.

    state    (term, entries)
    lead     ──> the next term or a later one       a term that was taken without an answer is lost
    append   ──> committed: its term is the newest, and it stood at the end
             ──> fenced: no effect                  it may say so only when its term has ended
             ──> unknown: as committed, some time, or not at all
    read     ──> the entries from the start up to the end of that moment
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, Literal

import msgspec

Outcome = Literal["done", "fenced", "unknown"]
State = tuple[int, tuple[bytes, ...]]
START: Final[State] = (0, ())


class Operation(msgspec.Struct, frozen=True):
    began: float
    ended: float  # infinite when the outcome is not known
    kind: Literal["lead", "append", "read"]
    outcome: Outcome = "done"
    term: int = 0
    at: int = 0
    values: tuple[bytes, ...] = ()


def is_linearizable(history: Sequence[Operation]) -> bool:
    operations = sorted(history, key=lambda each: each.began)
    everything = (1 << len(operations)) - 1
    optional = sum(1 << n for n, each in enumerate(operations) if each.outcome == "unknown")
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State]] = [(0, START)]
    while stack:
        done, state = stack.pop()
        if done | optional == everything:
            return True
        for number in _candidates(operations, done):
            for after in _steps(operations[number], state):
                place = (done | 1 << number, after)
                if place not in seen:
                    seen.add(place)
                    stack.append(place)
    return False


def _candidates(operations: Sequence[Operation], done: int) -> Iterator[int]:
    """Those that may come next: none that is left ended before they began."""
    left = [n for n in range(len(operations)) if not done >> n & 1]
    first_end = min((operations[n].ended for n in left), default=math.inf)
    yield from (n for n in left if operations[n].began <= first_end)


def _steps(operation: Operation, state: State) -> Iterator[State]:
    """The states it may lead to; none when its result does not fit."""
    term, entries = state
    match operation.kind, operation.outcome:
        case "lead", "done" if operation.term > term:
            yield operation.term, entries
        case "lead", "unknown":
            yield term + 1, entries
        case "append", "fenced" if operation.term < term:
            yield state
        case "append", "done" | "unknown":
            if operation.term == term and operation.at == len(entries):
                yield term, (*entries, *operation.values)
        case "read", "done" if operation.values == entries:
            yield state
        case _:
            pass
