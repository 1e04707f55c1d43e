"""How deliveries end: by receipts; or by ranges of offsets, for share groups and operators.

    receipts or offsets ── claims ── by ledger ── decide ── durable ──> an outcome for each

Each ledger decides about its own.  One that cannot be written refuses its part, and the others'
hold.  A transaction only reserves: its end acks.
"""

from collections.abc import Sequence
from typing import Protocol

from goqueue.broker.dlq.writer import DeadLetterWriter
from goqueue.broker.queues.acknowledgement import (
    Ending,
    Nack,
    Reject,
    Release,
    check,
    decide,
    to_outcomes,
)
from goqueue.broker.queues.dispatchers import Dispatchers
from goqueue.broker.queues.ledgers import Ledger, Waiting, wait_durable
from goqueue.broker.queues.state import QueueState
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.model.machine import Decision
from goqueue.queue import (
    NEVER_DELIVERED,
    Outcomes,
    QueueRecord,
    ReceiptExpired,
    Settled,
    SettleOutcome,
    Verdict,
    Where,
)
from goqueue.queue.receipts import Claims, read_receipts
from goqueue.runtime import Clock


class Elsewhere(Protocol):
    """The other nodes that lead partitions (`settle_elsewhere`)."""

    def divide(self, receipts: Sequence[str], /) -> dict[NodeId, list[int]] | None: ...

    def leader_elsewhere(self, where: Where, /) -> NodeId | None: ...

    async def settle(
        self, receipts: Sequence[str], ending: Ending, divided: dict[NodeId, list[int]], /
    ) -> list[SettleOutcome]: ...

    async def refusals(
        self, receipts: Sequence[str], ending: Ending, divided: dict[NodeId, list[int]], /
    ) -> dict[int, GoQueueError]: ...

    async def settle_range(
        self,
        leader: NodeId,
        where: Where,
        first: int,
        last: int,
        ending: Ending,
        consumer: str | None,
        /,
    ) -> list[Settled]: ...


class Settlement:
    def __init__(
        self,
        clock: Clock,
        state: QueueState,
        dispatchers: Dispatchers,
        dead_letter_writer: DeadLetterWriter,
    ) -> None:
        self._clock = clock
        self._state = state
        self._dispatchers = dispatchers
        self._dead_letter_writer = dead_letter_writer
        self.elsewhere: Elsewhere | None = None  # in a cluster

    # --- by receipts: an outcome for each, in order -----------------------------------------------

    async def settle(self, receipts: Sequence[str], ending: Ending) -> list[SettleOutcome]:
        """Each is `Settled`, or `ReceiptMalformed`, `ReceiptUnknown` or `ReceiptExpired`."""
        if self.elsewhere is not None:
            check(ending)
            if divided := self.elsewhere.divide(receipts):
                return await self.elsewhere.settle(receipts, ending, divided)
        return await self.settle_here(receipts, ending)

    async def settle_here(self, receipts: Sequence[str], ending: Ending) -> list[SettleOutcome]:
        """As `settle`, of what this node leads."""
        claims, malformed = read_receipts(receipts)
        outcomes = await self._settle(claims, len(receipts), ending)
        for place, error in malformed.items():
            outcomes[place] = error
        return outcomes

    async def refusals(self, receipts: Sequence[str], ending: Ending) -> dict[int, GoQueueError]:
        """As `settle`, for who wants to know only what did not go well, by place."""
        if self.elsewhere is not None:
            check(ending)
            if divided := self.elsewhere.divide(receipts):
                return await self.elsewhere.refusals(receipts, ending, divided)
        return await self.refusals_here(receipts, ending)

    async def refusals_here(
        self, receipts: Sequence[str], ending: Ending
    ) -> dict[int, GoQueueError]:
        """As `refusals`, of what this node leads."""
        claims, malformed = read_receipts(receipts)
        check(ending)
        outcomes, waiting = self.settle_now(claims, len(receipts), ending)
        refused: dict[int, GoQueueError] = {}
        if set(map(type, outcomes)) != {Verdict}:
            refused = {
                place: outcome
                for place, outcome in enumerate(outcomes)
                if isinstance(outcome, GoQueueError)
            }
        await wait_durable(waiting)
        return refused | malformed

    # --- by offset --------------------------------------------------------------------------------

    async def settle_range(
        self, where: Where, first: int, last: int, ending: Ending, *, consumer: str | None = None
    ) -> list[Settled]:
        """End what is in flight from `first` to `last`; only what `consumer` holds, if given.

        Gives what that was, in order.
        """
        if self.elsewhere is not None:
            leader = self.elsewhere.leader_elsewhere(where)
            if leader is not None:
                return await self.elsewhere.settle_range(
                    leader, where, first, last, ending, consumer
                )
        return await self.settle_range_here(where, first, last, ending, consumer=consumer)

    async def settle_range_here(
        self, where: Where, first: int, last: int, ending: Ending, *, consumer: str | None
    ) -> list[Settled]:
        """As `settle_range`, in a partition that this node leads."""
        claims = self.find_in_flight(where, first, last, consumer)
        outcomes = await self._settle(claims, _count(claims), ending)
        return [outcome for outcome in outcomes if isinstance(outcome, Settled)]

    def find_in_flight(
        self, where: Where, first: int, last: int, consumer: str | None = None
    ) -> Claims:
        """What is in flight in a range of offsets, as receipts for it would be read."""
        ledger = self._state.ledgers.find(where.topic, where.partition)
        if ledger is None:
            return {}
        return ledger.ahead.in_flight(where.group_id, first, last, consumer)

    def settle_ranges(
        self, where: Where, endings: Sequence[tuple[int, int, Ending]], *, consumer: str
    ) -> list[Waiting]:
        """End ranges that do not overlap, first to last; gives what is to be made durable.

        Raises `ReceiptExpired`, and ends nothing, unless `consumer` holds all.
        """
        found: list[tuple[Claims, int, Ending]] = []
        for first, last, ending in endings:
            check(ending)
            claims = self.find_in_flight(where, first, last, consumer)
            count = _count(claims)
            if count != last - first + 1:
                raise ReceiptExpired(f"{consumer!r} does not hold all of {first} to {last}")
            found.append((claims, count, ending))
        waiting: list[Waiting] = []
        for each in found:
            outcomes, waiting = self.settle_now(*each)
            assert set(map(type, outcomes)) == {Verdict}, "all were in flight"
        return waiting  # with the last one, those before it: they are of one ledger

    # --- at the end of a transaction --------------------------------------------------------------

    def reserve(
        self, claims: Claims, count: int, transactional_id: str
    ) -> tuple[Outcomes, list[Waiting]]:
        """Let messages in flight be acked by the end of a transaction; all of them or none."""
        outcomes, decided = self.check_reserve(claims, count, transactional_id)
        if any(isinstance(outcome, GoQueueError) for outcome in outcomes):
            return outcomes, []
        return outcomes, [
            Waiting(ledger, ledger.write(lambda _, decision=decision: decision)[1])  # type: ignore[misc]
            for ledger, decision in decided.items()
        ]

    def check_reserve(
        self, claims: Claims, count: int, transactional_id: str
    ) -> tuple[Outcomes, dict[Ledger, Decision[QueueRecord, None]]]:
        """As `reserve`, and nothing is written."""
        outcomes: Outcomes = [NEVER_DELIVERED] * count
        decided = {
            ledger: ledger.ahead.reserve_for_transaction(mine, outcomes, transactional_id)
            for ledger, mine in self._by_ledger(claims, outcomes).items()
        }
        return outcomes, decided

    # --- deciding ---------------------------------------------------------------------------------

    async def _settle(self, claims: Claims, count: int, ending: Ending) -> list[SettleOutcome]:
        check(ending)
        outcomes, waiting = self.settle_now(claims, count, ending)
        results = to_outcomes(self._state.table, claims, outcomes)
        await wait_durable(waiting)
        return results

    def settle_now(
        self, claims: Claims, count: int, ending: Ending
    ) -> tuple[Outcomes, list[Waiting]]:
        """A decision for each ledger; a ledger that cannot be written refuses its receipts.

        Raises that when it is the only one.
        """
        now = self._clock.steady()
        outcomes: Outcomes = [NEVER_DELIVERED] * count
        waiting: list[Waiting] = []
        by_ledger = self._by_ledger(claims, outcomes)
        for ledger, mine in by_ledger.items():
            try:
                _, written = ledger.write(
                    lambda machine, mine=mine: decide(machine, ending, now, mine, outcomes)  # type: ignore[misc]
                )
            except GoQueueError as error:
                if len(by_ledger) == 1:
                    raise
                _refuse(mine, outcomes, error)
            else:
                waiting.append(Waiting(ledger, written))
        self._tell_others(claims, ending)
        return outcomes, waiting

    def _by_ledger(self, claims: Claims, outcomes: Outcomes) -> dict[Ledger, Claims]:
        """Those of ledgers that another node leads are refused here."""
        found: dict[Ledger, Claims] = {}
        for key, some in claims.items():
            ledger = self._state.ledgers.find(key[0].topic, key[0].partition)
            if ledger is not None:
                found.setdefault(ledger, {})[key] = some
            elif refusal := self._state.ledgers.refusal(key[0].topic, key[0].partition):
                _refuse({key: some}, outcomes, refusal)
        return found

    def _tell_others(self, claims: Claims, ending: Ending) -> None:
        """Somebody may wait for what came back, or for room."""
        comes_back = isinstance(ending, Nack | Release)
        notify = self._dispatchers.notify_one if comes_back else self._dispatchers.notify_room
        for group_id in {where.group_id for where, _ in claims}:
            notify(group_id)
        if isinstance(ending, Nack | Reject | Release):
            self._dead_letter_writer.wake_if_due()


def _refuse(claims: Claims, outcomes: Outcomes, error: GoQueueError) -> None:
    for some in claims.values():
        for claim in some:
            outcomes[claim.places] = [error] * claim.size


def _count(claims: Claims) -> int:
    return sum(claim.size for some in claims.values() for claim in some)
