"""A state written down piece by piece, while it goes on changing.

A snapshot is the state of one moment, and it takes too long to write one without a pause.  So a
machine's state is walked part by part (a group, a transactional id, a ledger), and `apply` calls
`keep` before it changes a part: a part that was not reached yet is copied then, as it still is.
Such a copy is shallow: a list of values that never change.

    keys at the beginning     a    b    c    d    e
    reached                   ──────────>│
    `apply` changes b                            nothing to do, it is written
    `apply` changes d                            copied first; the walk finds the copy
    `apply` makes f                              not in the snapshot
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
CopyT = TypeVar("CopyT")


class Walk(Generic[KeyT, CopyT]):
    """Copies of all parts as they were when it was made, in the order of `keys`.

    `keys` must not be changed by others any more.  `copy` is called once for each part, also with
    keys that are new since: what it gives for those is not used.
    """

    def __init__(self, keys: Iterable[KeyT], copy: Callable[[KeyT], CopyT]) -> None:
        self._keys = keys
        self._copy = copy
        self._seen: set[KeyT] = set()  # reached or kept
        self._kept: dict[KeyT, CopyT] = {}

    def keep(self, key: KeyT) -> None:
        """The part is going to change."""
        if key not in self._seen:
            self._seen.add(key)
            self._kept[key] = self._copy(key)

    def __iter__(self) -> Iterator[CopyT]:
        for key in self._keys:
            if key in self._seen:
                yield self._kept.pop(key)
            else:
                self._seen.add(key)
                yield self._copy(key)
