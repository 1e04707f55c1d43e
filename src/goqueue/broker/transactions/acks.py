"""Acks of a queue's messages that take effect with a transaction, or not at all.

    in flight ── reserve ──> reserved ── the transaction commits ──> acked
        ^                       │
        └───────────────────────┘ it is aborted: in flight again, with its whole visibility timeout

The queue's own log says which transactional id has reserved which messages.  An id has one
transaction at a time, and the next one begins when nothing of the last is reserved any more.  So
the coordinator's decision is also the decision about the acks, and applying it may be repeated:
the second time nothing is reserved.  A reserved message does not time out, and no other verb ends
it.
"""

import asyncio
from collections.abc import Collection, Sequence

from goqueue.broker.queues.ledgers import Waiting, settle_all
from goqueue.broker.queues.service import Queues
from goqueue.model.errors import GoQueueError
from goqueue.queue.receipts import read_receipts
from goqueue.runtime import Clock
from goqueue.txn import QueueAcks

Refused = dict[int, GoQueueError]  # by the receipt's index in the request


class TransactionAcks:
    def __init__(self, clock: Clock, queues: Queues) -> None:
        self._clock = clock
        self._queues = queues

    @property
    def transactional_ids(self) -> Collection[str]:
        """Transactional ids that have, or had until lately, messages reserved."""
        return self._queues.reservations.keys()

    def count(self, transactional_id: str) -> int:
        """How many messages the transaction acks."""
        states = self._queues.reservations.get(transactional_id, {})
        return sum(
            lease.remaining
            for state in states
            for lease in state.reserved.get(transactional_id, {})
        )

    def reserve(
        self, transactional_id: str, receipts: Sequence[str]
    ) -> tuple[Refused, list[Waiting]]:
        """Let the transaction ack these messages; none of them if one receipt is refused."""
        claims, malformed = read_receipts(receipts)
        if malformed:
            return dict(malformed), []
        outcomes, waiting = self._queues.reserve(claims, len(receipts), transactional_id)
        refused = {
            index: outcome
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, GoQueueError)
        }
        return refused, waiting

    async def wait_durable(self, transactional_id: str) -> None:
        """Return when the messages that the transaction reserved are on disk."""
        await settle_all(self._queues.ledgers_with_reserved(transactional_id))

    def participants(self, transactional_id: str) -> list[QueueAcks]:
        """The ledgers that have messages reserved for the transaction."""
        return [
            QueueAcks(transactional_id, ledger.ahead.topic, ledger.ahead.partition)
            for ledger in self._queues.ledgers_with_reserved(transactional_id)
        ]

    def end(self, at: QueueAcks, *, commits: bool) -> asyncio.Future[None]:
        """Ack or release what the ended transaction reserved there; done when that is durable."""
        ledger = self._queues.ledgers.find(at.topic, at.partition)
        if ledger is None:  # the topic is deleted
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        now = self._clock.steady()
        group_ids, committed = ledger.submit_now(
            lambda machine: machine.end_reservations(now, at.transactional_id, commits=commits)
        )
        for group_id in group_ids:
            self._queues.notify_room(group_id)
        return committed or ledger.all_committed()
