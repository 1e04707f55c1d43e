"""The one shape of everything that remembers: a state machine over its own log.

A handler reads state and returns a `Decision`: the records to write and the reply to give.
`apply` is the only thing that changes state, live and in replay, so a replay rebuilds the state
exactly.  `goqueue.broker.machine_host` runs machines: it appends the records to the machine's
internal topic, applies them, and releases the reply when they are committed.

Time is an argument, never read: the steady time of `goqueue.runtime`, which does not jump.  Timers
are data: `next_deadline()` says when `on_deadline()` wants to be called, and that too returns a
decision.
"""

from collections.abc import Generator, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from goqueue.model.ids import Timestamp

RecordT = TypeVar("RecordT")
ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Decision(msgspec.Struct, Generic[RecordT, ReplyT], frozen=True):
    """What to write, and what to answer once it is committed."""

    records: Sequence[RecordT]
    reply: ReplyT


class Machine(Protocol[RecordT]):
    """What the host needs of a state machine.

    Records are `msgspec` structs of one tagged union; `encode` and `decode` turn one into the
    bytes of a log record and back.  A snapshot is records that, applied to a new machine, give the
    same state: so there is one format to keep compatible, not two.
    """

    def apply(self, record: RecordT) -> None: ...

    def snapshot(self) -> Generator[RecordT, None, None]:
        """The state as it is now, record by record, whatever is applied while it is read.

        One at a time: the next call, `close` and the end forget the one before.  No step may take
        long, so a record holds a bounded piece of the state (see `goqueue.model.snapshots`).
        """

    def encode(self, record: RecordT) -> bytes: ...

    def decode(self, data: bytes) -> RecordT: ...

    def next_deadline(self) -> Timestamp | None:
        """When `on_deadline` wants to be called; None when nothing is pending."""

    def on_deadline(self, now: Timestamp) -> Decision[RecordT, Any]:
        """Do what is due.  The host hands the reply to whoever registered for it."""
