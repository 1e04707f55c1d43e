"""Completing the transactions that the coordinator decided.

    DECIDED ──> MARKING ──> COMPLETE
      │           │
      │           every participant has its marker, durably
      the decision is durable

A marker that a participant does not confirm is sent again, for as long as it takes; what a crash
interrupts begins again at DECIDED.  That the transaction is complete is written with what is
decided next: a crash may take it, and then the markers are sent once more.  So a marker may come
twice, and the producer's next transaction may have begun by then.  The second one must not end it:

- With an epoch of its own (KIP-890) a marker ends what has an older one.
- Older clients go on with the same epoch.  A partition then knows a marker by the time of its
  decision (`Producers.has_ended`).  To groups and queues nothing is added before the completion is
  durable (`Transactions.add_offsets`, `add_acks`).
"""

import asyncio
import enum
from functools import partial
from typing import Final

import structlog

from goqueue.broker.transactions.log import TransactionLog
from goqueue.broker.transactions.participants import Participants
from goqueue.model.errors import GoQueueError, ShuttingDown
from goqueue.runtime import Clock
from goqueue.txn import Participant, Transaction

RETRY_SECONDS: Final = 1.0
WAIT_SECONDS_MAX: Final = 5.0  # a caller waits that long for a transaction to be completed

_log = structlog.get_logger("goqueue.transactions")


class EndState(enum.IntEnum):
    DECIDED = 0
    MARKING = 1
    COMPLETE = 2


class TransactionEnd:
    """How far the end of one transaction is.  Only `TransactionCompletion` changes it."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.state = EndState.DECIDED
        # Participants that have not confirmed their marker.
        self.unmarked = dict.fromkeys(transaction.participants)
        self.outstanding = 0  # markers on their way
        self.problem: GoQueueError | None = None  # why a marker must be sent again
        self.retry: asyncio.Task[None] | None = None
        self.is_stopped = False
        self._changed: asyncio.Future[None] | None = None  # only while there is a waiter

    @property
    def is_near(self) -> bool:
        """Whether it is complete after a flush or two: the next transaction waits for that."""
        return self.state < EndState.COMPLETE and self.retry is None and not self.is_stopped

    def move_to(self, state: EndState) -> None:
        assert state >= self.state
        self.state = state
        self.wake()

    def wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._changed = None

    async def wait_changed(self) -> None:
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    async def wait_complete(self, seconds: float = WAIT_SECONDS_MAX) -> bool:
        """Return when it is complete; False when that takes too long, or the broker stops."""
        try:
            async with asyncio.timeout(seconds):
                while self.state < EndState.COMPLETE and not self.is_stopped:
                    await self.wait_changed()
        except TimeoutError:
            pass
        return self.state is EndState.COMPLETE


class TransactionCompletion:
    """The ends of all transactions that are decided and not complete."""

    def __init__(self, clock: Clock, log: TransactionLog, participants: Participants) -> None:
        self._clock = clock
        self._log = log
        self._participants = participants
        self._tasks: asyncio.TaskGroup | None = None
        self._ends: dict[str, TransactionEnd] = {}  # by transactional id
        self._stopped = False

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Complete, in the background, what was decided before the last stop."""
        self._tasks = tasks
        self.resume()

    def stop(self) -> None:
        self._stopped = True
        for end in self._ends.values():
            self._stop(end)

    def resume(self, shard: int | None = None) -> None:
        """This node coordinates, or does so again: complete what was decided, by whomever."""
        for transaction in self._log.ahead.prepared:
            if shard in (None, self._log.shard_of(transaction.transactional_id)):
                self.complete(transaction)

    def resign(self, shard: int) -> None:
        """Whoever coordinates now completes what is under way; its callers look for that one."""
        for transactional_id, end in list(self._ends.items()):
            if self._log.shard_of(transactional_id) == shard:
                del self._ends[transactional_id]
                self._stop(end)

    def _stop(self, end: TransactionEnd) -> None:
        end.is_stopped = True
        end.wake()
        if end.retry is not None:
            end.retry.cancel()

    async def wait_ready(self, transactional_id: str) -> None:
        """Return when the next transaction may begin, or at once when that is not in sight."""
        while (end := self._ends.get(transactional_id)) is not None and end.is_near:
            await end.wait_changed()

    # --- one end ----------------------------------------------------------------------------------

    def complete(self, transaction: Transaction, *, soon: bool = False) -> TransactionEnd:
        """Complete the decided transaction, unless its end is under way.

        With `soon` its markers are sent in the loop's next turn, if the decision is durable.
        """
        end = self._ends.get(transaction.transactional_id)
        if end is not None:
            return end
        assert transaction.state.is_prepared
        end = self._ends[transaction.transactional_id] = TransactionEnd(transaction)
        if soon:
            asyncio.get_running_loop().call_soon(self._send_when_decided, end)
        else:
            self._send_when_decided(end)
        return end

    def complete_unattended(self, transaction: Transaction) -> None:
        """As `complete`, unless the broker stops: the next start completes what is left."""
        if not self._stopped:
            self.complete(transaction)

    def _send_when_decided(self, end: TransactionEnd) -> None:
        if end.is_stopped:
            return
        transactional_id = end.transaction.transactional_id
        try:
            pending = self._log.pending(transactional_id)
            self._log.refuse_if_failed(transactional_id)
        except GoQueueError as error:
            self._retry_later(end, error)
            return
        if pending is None:
            self._send_markers(end)
        else:
            pending.add_done_callback(lambda _: self._send_when_decided(end))

    def _send_markers(self, end: TransactionEnd) -> None:
        """To all participants that have not confirmed one."""
        end.move_to(EndState.MARKING)
        transactional_id = end.transaction.transactional_id
        epoch = self._log.host_of(transactional_id).epoch
        marker = end.transaction.marker(epoch, self._log.shard_of(transactional_id))
        end.outstanding = 1  # this loop
        for participant in list(end.unmarked):
            try:
                confirmed = self._participants.end(participant, marker)
            except GoQueueError as error:
                end.problem = error
            else:
                end.outstanding += 1
                confirmed.add_done_callback(partial(self._confirm, end, participant))
        self._count_down(end)

    def _confirm(
        self, end: TransactionEnd, participant: Participant, confirmed: asyncio.Future[None]
    ) -> None:
        if confirmed.cancelled():
            end.problem = ShuttingDown("stopped meanwhile")
        elif (error := confirmed.exception()) is None:
            end.unmarked.pop(participant, None)
        elif isinstance(error, GoQueueError):
            end.problem = error
        else:
            raise error
        self._count_down(end)

    def _count_down(self, end: TransactionEnd) -> None:
        end.outstanding -= 1
        if end.outstanding or end.is_stopped:
            return
        if end.unmarked:
            self._retry_later(end, end.problem)
        else:
            self._finish(end)

    def _retry_later(self, end: TransactionEnd, problem: GoQueueError | None) -> None:
        _log.error(
            "transaction not completed yet",
            transactional_id=end.transaction.transactional_id,
            state=end.state.name,
            problem=str(problem),
        )
        if not self._stopped:
            assert self._tasks is not None, "the broker is not running"
            end.retry = self._tasks.create_task(self._retry(end))
            end.wake()

    async def _retry(self, end: TransactionEnd) -> None:
        await self._clock.sleep(RETRY_SECONDS)
        end.retry = None
        self._send_when_decided(end)

    def _finish(self, end: TransactionEnd) -> None:
        transactional_id = end.transaction.transactional_id
        try:
            self._log.host_of(transactional_id).defer(
                lambda machine: machine.complete(self._clock.steady(), transactional_id)
            )
        except GoQueueError as error:  # after a crash it is completed once more
            _log.error("completions not written", problem=str(error))
        del self._ends[transactional_id]
        end.move_to(EndState.COMPLETE)
