"""The coordinator's machine on `__transactions`, and which decisions are not durable yet.

The machine's state is ahead of its log by one flush.  Nobody may rely on what a power loss could
take back: whoever acts on a decision about a transactional id waits for `wait_durable` first.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.model.errors import (
    DiskFull,
    GoQueueError,
    NotCoordinator,
    ShuttingDown,
    StorageFailed,
)
from goqueue.model.machine import Decision
from goqueue.txn import TransactionMachine, TransactionRecord

ReplyT = TypeVar("ReplyT")
Decide = Callable[[TransactionMachine], Decision[TransactionRecord, ReplyT]]


class TransactionLog:
    def __init__(self) -> None:
        self._host: MachineHost[TransactionMachine] | None = None
        # The last decision about an id, until it is durable; None: it could not be written yet.
        self._pending: dict[str, asyncio.Future[None] | None] = {}

    def attach(self, host: MachineHost[TransactionMachine]) -> None:
        self._host = host
        host.ahead.counts = type(host.ahead.counts)()  # counters restart with the process

    def resign(self) -> None:
        """Another node coordinates transactions; nobody waits for a decision of this one."""
        if self._host is not None:
            self._host.resign(_not_coordinator, _not_coordinator)
        self._host = None
        self._pending.clear()

    @property
    def is_coordinator(self) -> bool:
        return self._host is not None

    @property
    def host(self) -> MachineHost[TransactionMachine]:
        """Raises `NotCoordinator` unless this node coordinates transactions."""
        if self._host is None:
            raise _not_coordinator()
        return self._host

    @property
    def ahead(self) -> TransactionMachine:
        """The machine, ahead of its log: what is done about an id waits for `wait_durable`."""
        return self.host.ahead

    def refuse_if_failed(self) -> None:
        if self.host.failed is not None:
            raise StorageFailed(f"the transaction log is read-only: {self.host.failed}")

    # --- writing ----------------------------------------------------------------------------------

    def submit(self, transactional_id: str, decide: Decide[ReplyT]) -> tuple[ReplyT, Committed]:
        """Let the machine decide about the id; `wait_durable` tells when that is on disk."""
        reply, committed = self.host.submit_now(decide)
        self.note_decision(transactional_id, committed)
        return reply, committed

    def submit_soon(self, transactional_id: str, decide: Decide[ReplyT]) -> ReplyT:
        """As `submit`; the records are written when the caller has given its answer."""
        reply = self.host.defer(decide)
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self.note_decision(transactional_id, written)
        loop.call_soon(self._write_deferred, transactional_id, written)
        return reply

    def _write_deferred(self, transactional_id: str, written: asyncio.Future[None]) -> None:
        try:
            committed = self.host.all_committed()
        except GoQueueError as error:  # no room: `pending` tries again
            if self._pending.get(transactional_id) is written:
                self._pending[transactional_id] = None
            written.set_exception(error)
            written.exception()  # there may be no waiter
        else:
            committed.add_done_callback(lambda done: copy_result(done, written))

    def note_decision(self, transactional_id: str, committed: Committed) -> None:
        """A decision about the id is on its way to disk."""
        if committed is None:
            return
        self._pending[transactional_id] = committed
        committed.add_done_callback(lambda done: self._forget(transactional_id, done))

    def _forget(self, transactional_id: str, done: asyncio.Future[None]) -> None:
        if self._pending.get(transactional_id) is done:
            del self._pending[transactional_id]

    # --- waiting ----------------------------------------------------------------------------------

    def pending(self, transactional_id: str) -> asyncio.Future[None] | None:
        """Done when the last decision about the id is durable; None when it is by now.

        Writes the decision first if there was no room for it.
        """
        if transactional_id in self._pending and self._pending[transactional_id] is None:
            self.note_decision(transactional_id, self.host.all_committed())
        pending = self._pending.get(transactional_id)
        return None if pending is None or self._is_durable(pending) else pending

    async def wait_durable(self, transactional_id: str) -> None:
        """Return when all decisions about the id are on disk; raises when they cannot be."""
        while (pending := self.pending(transactional_id)) is not None:
            await asyncio.shield(pending)
        self.refuse_if_failed()

    async def settled(self) -> None:
        """As `wait_committed`, at little cost when it is so; a full disk holds nobody up."""
        with contextlib.suppress(DiskFull):
            self.host.write_deferred()
        await self.host.settled()

    async def wait_committed(self) -> None:
        """Return when everything that was decided up to now is durable."""
        await self.host.all_committed()

    def _is_durable(self, pending: asyncio.Future[None]) -> bool:
        # `_forget` may be still to come: who waits for what is done waits in an endless loop.
        return pending.done() and pending.exception() is None


def _not_coordinator() -> NotCoordinator:
    return NotCoordinator("this node does not coordinate transactions")


def copy_result(done: asyncio.Future[None], target: asyncio.Future[None]) -> None:
    if target.done():
        return
    error = ShuttingDown("stopped meanwhile") if done.cancelled() else done.exception()
    if error is None:
        target.set_result(None)
    else:
        target.set_exception(error)
        target.exception()  # there may be no waiter
