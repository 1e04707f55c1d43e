"""Who is in sync: proposed by the leader, granted by the controller."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container

import msgspec
from structlog.testing import capture_logs

from goqueue.broker.replicas.isr import Granted, IsrKeeper, LedPartition
from goqueue.cluster.replication import IsrMember, IsrProposal, Leader, Role
from goqueue.model.errors import Uncertain
from goqueue.model.ids import Epoch, Instant, NodeEpoch, NodeId, PartitionEpoch
from goqueue.testing.sim import SimLoop
from tests.unit.broker.replicas.replicas import sim_clock

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


class Led:
    """Wants an ISR, and keeps what it was told."""

    def __init__(self) -> None:
        self.wanted = frozenset((ONE, TWO))
        self.slow = frozenset[NodeId]()
        self.left_out = frozenset[NodeId]()
        self.ineligible: Container[NodeId] = ()
        self.role: Role | None = Leader(
            node=ONE,
            epoch=Epoch(5),
            partition_epoch=PartitionEpoch(7),
            replicas=(ONE, TWO, THREE),
            isr=frozenset((ONE, TWO)),
        )

    @property
    def leader(self) -> Leader:
        assert isinstance(self.role, Leader)
        return self.role

    def propose(
        self, now: Instant, *, ineligible: Container[NodeId] = frozenset()
    ) -> IsrProposal | None:
        self.ineligible = ineligible
        role = self.role
        if not isinstance(role, Leader) or (self.wanted == role.isr and not role.joining):
            return None
        joining = role.joining | (self.wanted - role.isr)
        return IsrProposal(
            role.epoch,
            role.partition_epoch,
            tuple(IsrMember(node, NodeEpoch(1)) for node in sorted(self.wanted)),
            msgspec.structs.replace(role, joining=joining),
            self.slow,
        )

    def change_role(self, role: Role) -> None:
        self.role = role

    def note_left_out(self, slow: frozenset[NodeId], now: Instant) -> None:
        self.left_out |= slow


class Controller:
    def __init__(self) -> None:
        self.asked: list[IsrProposal] = []
        self.answers: list[Granted | Exception | None] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def alter_isr(self, partition: LedPartition, proposal: IsrProposal) -> Granted | None:
        self.asked.append(proposal)
        await self.may_answer.wait()
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        members = frozenset(member.node for member in proposal.isr)
        return Granted(PartitionEpoch(proposal.partition_epoch + 1), members)


Story = Callable[[Led, Controller, IsrKeeper], Awaitable[None]]


def tell(story: Story) -> None:
    async def main() -> None:
        led, controller = Led(), Controller()
        keeper = IsrKeeper(sim_clock(), controller, lambda: [led], lambda: [THREE])
        running = asyncio.ensure_future(keeper.run())
        await story(led, controller, keeper)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    loop = SimLoop(0)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_as_long_as_all_is_well_nobody_is_asked():
    async def story(led: Led, controller: Controller, keeper: IsrKeeper) -> None:
        await asyncio.sleep(5.0)
        assert not controller.asked
        assert led.ineligible == [THREE]

    tell(story)


def test_who_leaves_counts_until_it_is_granted():
    async def story(led: Led, controller: Controller, keeper: IsrKeeper) -> None:
        controller.may_answer.clear()
        led.wanted = led.slow = frozenset((ONE,))
        await asyncio.sleep(2.0)
        assert led.leader.isr == {ONE, TWO}
        assert len(controller.asked) == 1, "one proposal at a time"
        controller.may_answer.set()
        await asyncio.sleep(0.1)
        assert led.leader.isr == {ONE}
        assert led.leader.partition_epoch == 8
        assert led.left_out == {ONE}

    tell(story)


def test_who_joins_counts_before_it_is_granted_and_soon():
    async def story(led: Led, controller: Controller, keeper: IsrKeeper) -> None:
        await asyncio.sleep(0.1)
        controller.may_answer.clear()
        led.wanted = frozenset((ONE, TWO, THREE))
        keeper.look_soon(led)
        await asyncio.sleep(0.01)
        assert controller.asked
        assert led.leader.isr == {ONE, TWO}
        assert led.leader.joining == {THREE}
        controller.may_answer.set()
        await asyncio.sleep(0.01)
        assert led.leader.isr == {ONE, TWO, THREE}
        assert not led.leader.joining

    tell(story)


def test_refused_or_without_a_word_it_is_as_before_and_asked_again():
    async def story(led: Led, controller: Controller, keeper: IsrKeeper) -> None:
        controller.answers = [None, Uncertain("no word")]
        led.wanted = frozenset((ONE, TWO, THREE))
        await asyncio.sleep(0.6)
        assert led.leader.isr == {ONE, TWO}
        assert led.leader.joining == {THREE}
        await asyncio.sleep(3.0)
        assert len(controller.asked) == 3
        assert led.leader.isr == {ONE, TWO, THREE}

    tell(story)


def test_what_is_granted_for_an_epoch_that_is_over_is_not_taken():
    async def story(led: Led, controller: Controller, keeper: IsrKeeper) -> None:
        controller.may_answer.clear()
        led.wanted = frozenset((ONE,))
        await asyncio.sleep(1.0)
        led.wanted = frozenset((ONE, TWO))
        newer = msgspec.structs.replace(led.leader, epoch=Epoch(6), joining=frozenset())
        led.change_role(newer)
        controller.may_answer.set()
        await asyncio.sleep(0.1)
        assert led.role == newer

    tell(story)


def test_what_the_image_said_first_stands():
    async def story(led: Led, controller: Controller, keeper: IsrKeeper) -> None:
        controller.may_answer.clear()
        led.wanted = frozenset((ONE,))
        await asyncio.sleep(1.0)
        led.wanted = frozenset((ONE, TWO))
        newer = msgspec.structs.replace(led.leader, partition_epoch=PartitionEpoch(9))
        led.change_role(newer)
        controller.may_answer.set()
        await asyncio.sleep(0.1)
        assert led.role == newer

    tell(story)


def test_a_controller_that_is_not_heard_is_told_of_once_in_a_while():
    async def story(led: Led, controller: Controller, keeper: IsrKeeper) -> None:
        controller.answers = [Uncertain("nobody answers")] * 1000
        led.wanted = frozenset((ONE, TWO, THREE))
        with capture_logs() as lines:
            await asyncio.sleep(25.0)
        silent = [each for each in lines if each["event"] == "no word on other in-sync replicas"]
        assert len(controller.asked) > 20
        assert silent[0]["proposals"] == 1
        assert len(silent) == 3
        assert sum(each["proposals"] for each in silent) > 15

    tell(story)
