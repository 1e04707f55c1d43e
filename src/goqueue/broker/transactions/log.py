"""The coordinator's machines on `__transactions`, and which decisions are not durable yet.

In a cluster `__transactions` has several partitions, the shards: a transactional id belongs to one,
and this node has the machines of the shards that it leads.  A broker that is alone has one, 0.

A machine's state is ahead of its log by one flush.  Nobody may rely on what a power loss could
take back: whoever acts on a decision about a transactional id waits for `wait_durable` first.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TypeVar

from goqueue.broker.groups.coordinator import only_shard
from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.transactions.machines import TransactionMachines
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
    def __init__(self, shard_of: Callable[[str], int] = only_shard) -> None:
        """`shard_of` gives the shard of a transactional id, or of an application's name."""
        self.shard_of = shard_of
        self._hosts: dict[int, MachineHost[TransactionMachine]] = {}  # by shard
        # Ahead of their logs: what is done about an id waits for `wait_durable`.
        self.ahead = TransactionMachines(
            lambda transactional_id: self.host_of(transactional_id).ahead,
            lambda: [host.ahead for host in self.hosts],
        )
        # The last decision about an id, until it is durable; None: it could not be written yet.
        self._pending: dict[str, asyncio.Future[None] | None] = {}

    def attach(self, host: MachineHost[TransactionMachine], shard: int = 0) -> None:
        self._hosts[shard] = host
        host.ahead.counts = type(host.ahead.counts)()  # counters restart with the process

    def resign(self, shard: int = 0) -> None:
        """Another node leads the shard; nobody waits for a decision of this one."""
        host = self._hosts.pop(shard, None)
        if host is not None:
            host.resign(_not_coordinator, _not_coordinator)
        for transactional_id in [each for each in self._pending if self.shard_of(each) == shard]:
            del self._pending[transactional_id]

    @property
    def is_coordinator(self) -> bool:
        """Whether this node leads any shard."""
        return bool(self._hosts)

    def coordinates(self, transactional_id: str) -> bool:
        return self.shard_of(transactional_id) in self._hosts

    @property
    def shards(self) -> Mapping[int, MachineHost[TransactionMachine]]:
        return self._hosts

    @property
    def hosts(self) -> list[MachineHost[TransactionMachine]]:
        """Of the shards that this node leads, in order."""
        return [host for _, host in sorted(self._hosts.items())]

    def host_of(self, transactional_id: str) -> MachineHost[TransactionMachine]:
        """Raises `NotCoordinator` unless this node coordinates the id's transactions."""
        host = self._hosts.get(self.shard_of(transactional_id))
        if host is None:
            raise _not_coordinator()
        return host

    @property
    def host(self) -> MachineHost[TransactionMachine]:
        """The first shard's, which has all transactions of a broker that is alone."""
        if 0 not in self._hosts:
            raise _not_coordinator()
        return self._hosts[0]

    def refuse_if_failed(self, transactional_id: str) -> None:
        failed = self.host_of(transactional_id).failed
        if failed is not None:
            raise StorageFailed(f"the transaction log is read-only: {failed}")

    # --- writing ----------------------------------------------------------------------------------

    def submit(self, transactional_id: str, decide: Decide[ReplyT]) -> tuple[ReplyT, Committed]:
        """Let the machine decide about the id; `wait_durable` tells when that is on disk."""
        reply, committed = self.host_of(transactional_id).submit_now(decide)
        self.note_decision(transactional_id, committed)
        return reply, committed

    def submit_soon(self, transactional_id: str, decide: Decide[ReplyT]) -> ReplyT:
        """As `submit`; the records are written when the caller has given its answer."""
        reply = self.host_of(transactional_id).defer(decide)
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self.note_decision(transactional_id, written)
        loop.call_soon(self._write_deferred, transactional_id, written)
        return reply

    def _write_deferred(self, transactional_id: str, written: asyncio.Future[None]) -> None:
        try:
            committed = self.host_of(transactional_id).all_committed()
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
            self.note_decision(transactional_id, self.host_of(transactional_id).all_committed())
        pending = self._pending.get(transactional_id)
        return None if pending is None or self._is_durable(pending) else pending

    async def wait_durable(self, transactional_id: str) -> None:
        """Return when all decisions about the id are on disk; raises when they cannot be."""
        while (pending := self.pending(transactional_id)) is not None:
            await asyncio.shield(pending)
        self.refuse_if_failed(transactional_id)

    async def wait_settled(self, transactional_id: str | None = None) -> None:
        """As `wait_committed`, at little cost when it is so; a full disk holds nobody up.

        Of the id's shard, or of all that this node leads.
        """
        hosts = self.hosts if transactional_id is None else [self.host_of(transactional_id)]
        for host in hosts:
            with contextlib.suppress(DiskFull):
                host.write_deferred()
            await host.wait_settled()

    async def wait_committed(self, transactional_id: str) -> None:
        """Return when everything that was decided up to now in the id's shard is durable."""
        await self.host_of(transactional_id).all_committed()

    def _is_durable(self, pending: asyncio.Future[None]) -> bool:
        # `_forget` may be still to come: who waits for what is done waits in an endless loop.
        return pending.done() and pending.exception() is None


class SettledShard:
    """The shard of an id, for a `Barrier`."""

    def __init__(self, log: TransactionLog, transactional_id: str) -> None:
        self._log = log
        self._transactional_id = transactional_id

    async def wait_settled(self) -> None:
        await self._log.wait_settled(self._transactional_id)


def _not_coordinator() -> NotCoordinator:
    return NotCoordinator("this node does not coordinate the transaction")


def copy_result(done: asyncio.Future[None], target: asyncio.Future[None]) -> None:
    if target.done():
        return
    error = ShuttingDown("stopped meanwhile") if done.cancelled() else done.exception()
    if error is None:
        target.set_result(None)
    else:
        target.set_exception(error)
        target.exception()  # there may be no waiter
