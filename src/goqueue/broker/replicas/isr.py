"""Who is in sync with the partitions that this node leads: looks, proposes, and waits for the word.

    each second, or soon when a follower caught up or lost data
        propose ──> the proposal's role: whoever joins counts at once (`change_role`)
                ──> the controller ──> granted: whoever leaves counts no more
                                   ──> refused, or no word: as before, and asked again

One proposal a partition is under way at a time.
"""

import asyncio
from collections.abc import Callable, Collection, Container, Coroutine, Iterable
from typing import Any, Final, Protocol

import msgspec
import structlog

from goqueue.cluster.replication import IsrProposal, Leader, Role
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import Instant, NodeId, PartitionEpoch
from goqueue.runtime import Clock

LOOK_SECONDS: Final = 0.5
RETRY_SECONDS: Final = 0.2
SILENCE_TOLD_NS: Final = 10_000_000_000  # between two lines about a controller that is not heard

_log = structlog.get_logger("goqueue.replication")


class LedPartition(Protocol):
    """A partition, all its logs together."""

    @property
    def role(self) -> Role | None: ...

    def propose(
        self, now: Instant, *, ineligible: Container[NodeId] = frozenset()
    ) -> IsrProposal | None:
        """A better ISR; None when there is none, or another node leads."""

    def change_role(self, role: Role) -> None: ...

    def note_left_out(self, slow: frozenset[NodeId], now: Instant) -> None:
        """Who was left out for its slowness stays out for a while."""


class Granted(msgspec.Struct, frozen=True):
    """The partition as the controller has it now."""

    partition_epoch: PartitionEpoch
    isr: frozenset[NodeId]


class Controller(Protocol):
    async def alter_isr(self, partition: LedPartition, proposal: IsrProposal) -> Granted | None:
        """None when it was refused; raises `GoQueueError` when it is not known."""


class IsrKeeper:
    def __init__(
        self,
        clock: Clock,
        controller: Controller,
        led: Callable[[], Iterable[LedPartition]],
        ineligible: Callable[[], Collection[NodeId]] = frozenset,
    ) -> None:
        """`ineligible` are nodes that are fenced or draining."""
        self._clock = clock
        self._controller = controller
        self._led = led
        self._ineligible = ineligible
        self._proposing: dict[LedPartition, asyncio.Task[None]] = {}
        self._soon: dict[LedPartition, None] = {}
        self._news = asyncio.Event()
        self._unanswered = 0  # proposals, since that was last told
        self._silence_told_at: Instant | None = None

    def look_soon(self, partition: LedPartition) -> None:
        """A follower has caught up, or has lost data."""
        self._soon[partition] = None
        self._news.set()

    async def run(self) -> None:
        try:
            while True:
                for partition in self._led():
                    self._look(partition)
                await self._wait()
        finally:
            for task in self._proposing.values():
                task.cancel()

    async def _wait(self) -> None:
        """Until it is time to look at all; at those that have news meanwhile."""
        timer = asyncio.ensure_future(self._clock.sleep(LOOK_SECONDS))  # rule-ok: ends below
        try:
            while not timer.done():
                news = asyncio.ensure_future(self._news.wait())  # rule-ok: ends below
                await asyncio.wait([timer, news], return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                self._news.clear()
                soon, self._soon = self._soon, {}
                for partition in soon:
                    self._look(partition)
        finally:
            timer.cancel()

    def _look(self, partition: LedPartition) -> None:
        if partition in self._proposing:
            return
        proposal = partition.propose(_instant(), ineligible=self._ineligible())
        if proposal is None:
            return
        partition.change_role(proposal.role)  # before it is sent: whoever joins counts from now on
        task = _start(self._propose(partition, proposal))
        self._proposing[partition] = task
        task.add_done_callback(lambda _: self._proposing.pop(partition, None))

    async def _propose(self, partition: LedPartition, proposal: IsrProposal) -> None:
        try:
            granted = await self._controller.alter_isr(partition, proposal)
        except GoQueueError as error:
            self._tell_silence(error)
            granted = None
        if granted is None:
            await self._clock.sleep(RETRY_SECONDS)
            return
        _log.info(
            "in-sync replicas changed",
            partition=str(partition),
            isr=sorted(granted.isr),
            slow=sorted(proposal.slow),
        )
        partition.note_left_out(proposal.slow, _instant())
        role = partition.role
        if not isinstance(role, Leader) or role.epoch != proposal.leader_epoch:
            return
        if granted.partition_epoch > role.partition_epoch:
            partition.change_role(_apply_grant(role, granted))

    def _tell_silence(self, error: GoQueueError) -> None:
        """Once in a while: each of thousands of partitions asks several times a second."""
        self._unanswered += 1
        now = _instant()
        if self._silence_told_at is None or now - self._silence_told_at > SILENCE_TOLD_NS:
            _log.warning(
                "no word on other in-sync replicas",
                problem=str(error),
                proposals=self._unanswered,
            )
            self._silence_told_at, self._unanswered = now, 0


def _apply_grant(role: Leader, granted: Granted) -> Leader:
    return msgspec.structs.replace(
        role,
        partition_epoch=granted.partition_epoch,
        isr=granted.isr,
        joining=frozenset(),
    )


def _instant() -> Instant:
    """By the clock of the partitions' acks."""
    return Instant(int(asyncio.get_running_loop().time() * 1e9))


def _start(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work)  # rule-ok: `run` ends it
