"""Transactions of an engine, many at a time: attempts, and the one decision about all of them.

What decides is `txn/applications.py`.  The decision is durable before anybody hears of it and
before any marker is written; then every transaction that it ends is completed like any other.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from goqueue.broker.barrier import settle_refusals
from goqueue.broker.transactions.coordinator import ReserveProducerId, Transactions
from goqueue.model.machine import Decision
from goqueue.runtime import Clock
from goqueue.txn import (
    Attempt,
    GroupEnded,
    Members,
    MustEnd,
    ProducerIdentity,
    RunBegun,
    TransactionMachine,
    TransactionRecord,
)
from goqueue.txn.errors import ConcurrentTransactions

START_TRIES_MAX: Final = 10  # to end what others begin under the same name meanwhile

EndedT = TypeVar("EndedT", bound=RunBegun | GroupEnded)


class GroupTransactions:
    """The verbs of group transactions.  Refusals are raised as `TransactionError`."""

    def __init__(
        self, clock: Clock, transactions: Transactions, reserve_producer_id: ReserveProducerId
    ) -> None:
        self._clock = clock
        self._transactions = transactions
        self._reserve_producer_id = reserve_producer_id

    @settle_refusals
    async def start_run(self, application: str, run: int) -> RunBegun:
        """A new run fences older ones and aborts their attempts."""
        return await self._end(
            application,
            lambda machine: machine.applications.start_run(self._clock.steady(), application, run),
        )

    @settle_refusals
    async def start_named_run(self, application: str, name: str) -> RunBegun:
        """The same; called again with the newest run's name, it is that run."""
        return await self._end(
            application,
            lambda machine: machine.applications.start_named_run(
                self._clock.steady(), application, name
            ),
        )

    @settle_refusals
    async def start_attempt(
        self, attempt: Attempt, *, task: int, number: int, timeout_ms: int
    ) -> tuple[str, ProducerIdentity] | None:
        """A transactional id and a producer for one attempt; None when the version is decided."""
        name = attempt_name(attempt, task, number)
        for _ in range(START_TRIES_MAX):
            producer_id = await self._reserve_producer_id()
            reply, committed = self._transactions.host_of(name).submit_now(
                lambda machine, producer_id=producer_id: machine.applications.start_attempt(  # type: ignore[misc]
                    self._clock.steady(),
                    attempt,
                    name,
                    timeout_ms=timeout_ms,
                    new_producer_id=producer_id,
                )
            )
            self._transactions.note_decision(name, committed)
            await self._transactions.wait_durable(name)
            if reply is None:
                # The decision may be on its way to disk.
                await self._transactions.host_of(name).wait_settled()
                return None
            if isinstance(reply, ProducerIdentity):
                return name, reply
            assert isinstance(reply, MustEnd)
            if not await self._transactions.wait_completed(name):
                break
        raise ConcurrentTransactions(f"an earlier {name!r} is still being aborted")

    @settle_refusals
    async def decide(
        self, application: str, version: int, run: int, members: Members, contents: str = ""
    ) -> GroupEnded:
        """Commit all members by one record, and abort the version's other attempts.

        When the version was decided before, the members given are a repetition and are aborted;
        with other contents than then it is refused.
        """
        for transactional_id, _ in members:
            await self._transactions.wait_durable(transactional_id)
        names = [transactional_id for transactional_id, _ in members]
        ended = await self._end(
            application,
            lambda machine: machine.applications.decide(
                self._clock.steady(), application, version, run, members, contents
            ),
            names,
        )
        if ended.was_decided:
            await asyncio.gather(*(self._abort_if_open(each, who) for each, who in members))
        return ended

    @settle_refusals
    async def abort(self, application: str, version: int, run: int) -> GroupEnded:
        """Abort every attempt at the version; nothing happens when it is decided."""
        return await self._end(
            application,
            lambda machine: machine.applications.abort(
                self._clock.steady(), application, version, run
            ),
        )

    async def retire(self, application: str) -> bool:
        """Forget an application that will not come back; False when there is none."""
        return await self._transactions.host_of(application).submit(
            lambda machine: machine.applications.retire(application)
        )

    async def wait_settled(self, about: object = None) -> None:
        """Return when everything that was decided about an application is durable."""
        name = about.application if isinstance(about, Attempt) else about
        await self._transactions.wait_settled(name)

    async def _end(
        self,
        application: str,
        decide: Callable[[TransactionMachine], Decision[TransactionRecord, EndedT]],
        members: Iterable[str] = (),
    ) -> EndedT:
        """Decide about many at once, and return when that is durable and completed."""
        host = self._transactions.host_of(application)
        ended, committed = host.submit_now(decide)
        ending = [*members, *ended.aborted]
        for transactional_id in ending:
            self._transactions.note_decision(transactional_id, committed)
        try:
            if committed is not None:
                await asyncio.shield(committed)
            else:  # the decision that is repeated may be on its way to disk
                await host.wait_settled()
        except asyncio.CancelledError:
            for transactional_id in ending:
                self._transactions.complete_unattended(transactional_id)
            raise
        await asyncio.gather(*(self._transactions.wait_completed(each) for each in ending))
        return ended

    async def _abort_if_open(self, transactional_id: str, who: ProducerIdentity) -> None:
        if self._transactions.ahead.find(transactional_id) is not None:
            await self._transactions.abort(transactional_id, only=who)


def attempt_name(attempt: Attempt, task: int, number: int) -> str:
    return f"{attempt.application}:{attempt.run}:{attempt.version}:{task}:{number}"
