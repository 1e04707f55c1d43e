"""Acks of a queue's messages that take effect with a transaction, or not at all.

    in flight ── reserve ──> reserved ── the transaction commits ──> acked
        ^                       │
        └───────────────────────┘ it is aborted: in flight again, with its whole visibility timeout

The ledger of a partition says which transaction has reserved which of its messages, by producer id
and epoch; the marker of the transaction ends that.  A reserved message does not time out, and no
other verb ends it.
"""

import asyncio
from collections.abc import Iterator

from goqueue.broker.queues.ledgers import Ledger, Waiting
from goqueue.broker.queues.service import Queues
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.queue import Owner, read_owner
from goqueue.queue.receipts import Claims
from goqueue.runtime import Clock
from goqueue.txn import QueueLedger, Transaction

Refused = dict[int, GoQueueError]  # by the receipt's index in the request


class TransactionAcks:
    def __init__(self, clock: Clock, queues: Queues) -> None:
        self._clock = clock
        self._queues = queues

    def owners(self) -> Iterator[tuple[TopicPartition, Owner]]:
        """Whose transactions have messages reserved, and in which ledgers."""
        for text in list(self._queues.reservations):
            for ledger in self._queues.ledgers_with_reserved(text):
                yield _place(ledger), read_owner(text)

    def count(self, transaction: Transaction) -> int:
        """How many messages the open transaction acks."""
        owner = str(Owner(*transaction.open_producer, transaction.transactional_id))
        states = self._queues.reservations.get(owner, {})
        return sum(lease.remaining for state in states for lease in state.reserved.get(owner, {}))

    def reserve(self, owner: Owner, claims: Claims, count: int) -> tuple[Refused, list[Waiting]]:
        """Let the transaction ack these messages; none of them if one receipt is refused."""
        outcomes, waiting = self._queues.settlement.reserve(claims, count, str(owner))
        refused = {
            index: outcome
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, GoQueueError)
        }
        return refused, waiting

    def end(self, at: QueueLedger, marker: Marker) -> asyncio.Future[None]:
        """Ack or release what the transaction reserved there; done when that is durable."""
        ledger = self._queues.ledgers.find(at.topic, at.partition)
        if ledger is None:
            refusal = self._queues.ledgers.refusal(at.topic, at.partition)
            if refusal is not None:
                raise refusal
            # The topic is deleted.
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        now = self._clock.steady()
        group_ids, committed = ledger.submit_now(
            lambda machine: machine.end_transaction(now, marker)
        )
        for group_id in group_ids:
            self._queues.dispatchers.notify_room(group_id)
        return committed or ledger.all_committed()

    async def rename_owner(self, former: str, owner: Owner) -> None:
        """What a former version reserved for a transactional id belongs to its producer."""
        now = self._clock.steady()
        for ledger in self._queues.ledgers_with_reserved(former):
            await ledger.submit(lambda machine: machine.rename_owner(now, former, str(owner)))


def _place(ledger: Ledger) -> TopicPartition:
    return TopicPartition(TopicName(ledger.ahead.topic), ledger.ahead.partition)


def ledgers_of(claims: Claims) -> set[TopicPartition]:
    return {TopicPartition(where.topic, where.partition) for where, _ in claims}
