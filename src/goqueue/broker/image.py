"""An image of a machine: what is committed of it, to look at without waiting.

The host's machine runs ahead of its log, and whoever reads it waits for the log.  Every request
asks which topics there are, and must not wait: it looks at a second copy, which is given each
record when that is committed.  It takes values as they stand in a log, so it can follow a log that
another node writes as well as this node's own.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from goqueue.broker.journal import Journal
from goqueue.model.ids import Offset
from goqueue.model.machine import Machine

MachineT = TypeVar("MachineT", bound=Machine)  # type: ignore[type-arg] # the record type is free here


class Image(Generic[MachineT]):
    """The event loop's thread looks; `current` is the same object until it is replaced."""

    def __init__(
        self, machine: MachineT, journal: Journal, apply: Callable[[MachineT, Any], None]
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._apply = apply  # a record to the machine, and to what goes with it
        # By the last one's offset, None if deferred; what is committed is applied at the next look.
        self._expected: deque[tuple[Offset | None, Sequence[bytes]]] = deque()

    @property
    def current(self) -> MachineT:
        """The machine with everything that is committed by now, and nothing else."""
        if self._expected:
            self.catch_up()
        return self._machine

    def expect(self, last: Offset | None, values: Sequence[bytes]) -> None:
        """These were appended, up to the offset `last`; apply them when they are committed.

        None: they are deferred, and show when everything before them does.
        """
        self._expected.append((last, values))

    def await_commits_of(self, journal: Journal) -> None:
        """From now on; what the one before did not commit is forgotten."""
        self.catch_up()
        self._expected.clear()
        self._journal = journal

    def apply(self, values: Sequence[bytes]) -> None:
        """Committed by another node."""
        machine = self._machine
        for value in values:
            self._apply(machine, machine.decode(value))

    def replace(self, machine: MachineT) -> None:
        """By one that a snapshot gave."""
        self._machine = machine

    def catch_up(self) -> None:
        """Apply what is committed by now, as every look does."""
        expected = self._expected
        while expected:
            last, values = expected[0]
            if last is not None and not self._journal.is_committed(last):
                return
            expected.popleft()
            self.apply(values)
