"""Acks of a queue's messages that take effect with a transaction, or not at all.

    in flight ── reserve ──> reserved ── the transaction commits ──> acked
        ^                       │
        └───────────────────────┘ it is aborted: in flight again, with its whole visibility timeout

The ledger of a partition says which transaction has reserved which of its messages, by producer id
and epoch; the marker of the transaction ends that.  A reserved message does not time out, and no
other verb ends it.
"""

import asyncio
from collections.abc import Iterator, Sequence

from goqueue.broker.queues.ledgers import Waiting
from goqueue.broker.queues.service import Queues
from goqueue.broker.transactions.ledger_tokens import LedgerToken, LedgerTokens, place_of
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.ids import TopicPartition
from goqueue.model.markers import Marker
from goqueue.queue import Owner, Where, read_owner
from goqueue.queue.ranges import Ranges
from goqueue.queue.receipts import Claims
from goqueue.runtime import Clock
from goqueue.txn import QueueLedger, Transaction

Refused = dict[int, GoQueueError]  # by the receipt's index in the request


class TransactionAcks:
    def __init__(self, clock: Clock, queues: Queues) -> None:
        self._clock = clock
        self._queues = queues
        self._tokens = LedgerTokens()

    def owners(self) -> Iterator[tuple[TopicPartition, Owner]]:
        """Whose transactions have messages reserved, and in which ledgers."""
        for text in list(self._queues.reservations):
            for ledger in self._queues.ledgers_with_reserved(text):
                yield place_of(ledger), read_owner(text)

    def count(self, transaction: Transaction) -> int:
        """How many messages of this node's ledgers the open transaction acks."""
        return self.count_of(str(owner_of(transaction)))

    def count_of(self, owner: str) -> int:
        states = self._queues.reservations.get(owner, {})
        return sum(lease.remaining for state in states for lease in state.reserved.get(owner, {}))

    def reserve(self, owner: Owner, claims: Claims, count: int) -> tuple[Refused, list[Waiting]]:
        """Let the transaction ack these messages; none of them if one receipt is refused."""
        outcomes, waiting = self._queues.settlement.reserve(claims, count, str(owner))
        return refusals_of(outcomes), waiting

    def check(self, owner: Owner, claims: Claims, count: int) -> tuple[Refused, list[LedgerToken]]:
        """What `reserve` would refuse; and what holds until a transaction of the producer ends."""
        outcomes, ledgers = self._queues.settlement.check_reserve(claims, count, str(owner))
        return refusals_of(outcomes), [self._tokens.give(each, owner) for each in ledgers]

    def holds(self, owner: Owner, tokens: Sequence[LedgerToken]) -> bool:
        """Whether no transaction of the producer has ended in the ledgers since `check`."""
        return all(self._tokens.holds(self._queues.ledgers, owner, each) for each in tokens)

    def added_ranges(self, owner: Owner, claims: Claims) -> list[tuple[Where, Ranges]]:
        """What `reserve` would have the transaction ack that it does not yet."""
        found: list[tuple[Where, Ranges]] = []
        for key, some in claims.items():
            ledger = self._queues.ledgers.find(key[0].topic, key[0].partition)
            if ledger is not None:
                found += ledger.ahead.added_ranges({key: some}, str(owner))
        return found

    async def cancel(self, owner: Owner, added: Sequence[tuple[Where, Ranges]]) -> None:
        """These are in flight again, as if the transaction had not reserved them; durably."""
        now = self._clock.steady()
        for where, ranges in added:
            ledger = self._queues.ledgers.find(where.topic, where.partition)
            if ledger is None:
                raise NotLeader(f"{where.topic}-{where.partition} is not led here any more")
            some = [(where, ranges)]
            await ledger.submit(
                lambda machine, some=some: machine.cancel_reservations(now, str(owner), some)  # type: ignore[misc]
            )

    def end(self, at: QueueLedger, marker: Marker) -> asyncio.Future[None]:
        """Ack or release what the transaction reserved there; done when that is durable."""
        ledger = self._queues.ledgers.find(at.topic, at.partition)
        if ledger is not None:
            self._tokens.end(ledger, marker.producer_id)
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


def refusals_of(outcomes: Sequence[object]) -> Refused:
    return {
        index: outcome
        for index, outcome in enumerate(outcomes)
        if isinstance(outcome, GoQueueError)
    }


def owner_of(transaction: Transaction) -> Owner:
    """Of what the open transaction has reserved."""
    return Owner(*transaction.open_producer, transaction.transactional_id)


def ledgers_of(claims: Claims) -> set[TopicPartition]:
    return {TopicPartition(where.topic, where.partition) for where, _ in claims}
