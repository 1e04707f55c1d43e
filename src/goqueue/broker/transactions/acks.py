"""Acks of a queue's messages that take effect with a transaction, or not at all.

    in flight ── pin ──> pinned ── the transaction commits ──> finished
        ^                   │
        └───────────────────┘ it is aborted: in flight again, with its whole time

Who has pinned what stands in the queue's own log, under the transactional id: an id has one
transaction at a time, and the next one begins when nothing of the last is pinned any more.  So the
coordinator's decision is also the one about the acks, and carrying it out may be repeated: the
second time nothing is pinned.  A pinned message does not run out, and no other verb ends it.
"""

import asyncio
from collections.abc import Collection, Sequence

from goqueue.broker.machine_host import Committed
from goqueue.broker.queues.service import Queues
from goqueue.queue import QueueError
from goqueue.queue.receipts import read_receipts
from goqueue.runtime import Clock

Refused = dict[int, QueueError]  # by the receipt's place in the request


class TransactionAcks:
    def __init__(self, clock: Clock, queues: Queues) -> None:
        self._clock = clock
        self._queues = queues

    @property
    def owners(self) -> Collection[str]:
        """Transactional ids that have, or had until lately, something pinned."""
        return self._queues.machine.pins.keys()

    def count(self, owner: str) -> int:
        """How many messages the transaction acks."""
        ledgers = self._queues.machine.pins.get(owner, {})
        return sum(lease.remaining for ledger in ledgers for lease in ledger.pinned.get(owner, {}))

    def pin(self, owner: str, receipts: Sequence[str]) -> tuple[Refused, Committed]:
        """Have the transaction ack these; none of them when one is refused."""
        claims, malformed = read_receipts(receipts)
        if malformed:
            return dict(malformed), None
        outcomes, committed = self._queues.host.submit_now(
            lambda machine: machine.pin(claims, len(receipts), owner)
        )
        refused = {
            place: outcome
            for place, outcome in enumerate(outcomes)
            if isinstance(outcome, QueueError)
        }
        return refused, committed

    async def durable(self, owner: str) -> None:
        """Return when what the transaction acks is on disk."""
        if owner in self._queues.machine.pins:
            await self._queues.host.settled()

    async def end(self, owner: str, *, commits: bool) -> None:
        """The transaction is over: carry that out, durably."""
        if owner not in self._queues.machine.pins:
            return
        committed = self.end_now(owner, commits=commits)
        if committed is not None:
            await asyncio.shield(committed)

    def end_now(self, owner: str, *, commits: bool) -> Committed:
        group_ids, committed = self._queues.host.submit_now(
            lambda machine: machine.end_pins(self._clock.steady(), owner, commits=commits)
        )
        for group_id in group_ids:
            self._queues.has_room(group_id)
        return committed
