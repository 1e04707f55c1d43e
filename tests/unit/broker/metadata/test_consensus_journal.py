"""The metadata's host on a consensus log: what is answered is committed, also when terms end."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from goqueue.broker import MachineHost
from goqueue.broker.metadata.consensus_journal import ConsensusJournal
from goqueue.cluster import Metadata, MetadataRecord, Topic, controller
from goqueue.cluster.consensus import ConsensusLog
from goqueue.model.errors import DiskFull, Fenced, GoQueueError, StorageFailed, Uncertain
from goqueue.model.ids import Offset, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.testing.sim import SimClock, SimDisk, SimLoop, run
from goqueue.testing.sim.consensus import SimQuorum
from tests.unit.cluster.consensus.quorums import LocalQuorum, read_all


def clock() -> SimClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return SimClock(loop)


class Node:
    """One that leads, and notes when it is told that it does not any more."""

    def __init__(self, log: ConsensusLog) -> None:
        self.log = log
        self.lost: list[GoQueueError | None] = []

    async def lead(self) -> MachineHost[Metadata]:
        self.journal = ConsensusJournal(self.log, await self.log.lead(), self._note_lost)
        host = MachineHost(Metadata({}, 10), self.journal, clock())
        await host.open()
        return host

    def _note_lost(self) -> None:
        self.lost.append(self.journal.error)


def create(name: str) -> Callable[[Metadata], Decision[MetadataRecord, Topic]]:
    topic_id = TopicId(UUID(int=abs(hash(name))))

    def decide(metadata: Metadata) -> Decision[MetadataRecord, Topic]:
        return controller.create_topic(
            metadata,
            TopicName(name),
            topic_id=topic_id,
            partitions=1,
            settings={},
            now=Timestamp(1),
        )

    return decide


async def topics(log: ConsensusLog) -> list[str]:
    """Those that are in the log."""
    machine = Metadata({}, 10)
    for value in await read_all(log):
        machine.apply(machine.decode(value))
    return sorted(machine.topics)


def test_what_is_answered_is_committed_in_the_order_of_decisions():
    async def story() -> None:
        quorum = SimQuorum()
        host = await Node(quorum.connect("a")).lead()
        names = [f"t{number}" for number in range(20)]
        await asyncio.gather(*(host.submit(create(name)) for name in names))
        assert await topics(quorum.connect("b")) == sorted(names)
        again = await Node(quorum.connect("b")).lead()
        await again.submit(lambda machine: controller.name_cluster(machine, "c"))
        assert len(await read_all(quorum.connect("c"))) == 21

    run(story())


def test_next_leader_goes_on_from_the_snapshot_and_the_log():
    async def story() -> None:
        quorum = SimQuorum()
        host = await Node(quorum.connect("a")).lead()
        await host.submit(create("before"))
        await host.take_snapshot()
        await host.submit(create("after"))
        assert quorum.snapshot is not None
        again = await Node(quorum.connect("b")).lead()
        with pytest.raises(GoQueueError, match="exists"):
            await again.submit(create("before"))
        with pytest.raises(GoQueueError, match="exists"):
            await again.submit(create("after"))

    run(story())


def test_fenced_leader_is_told_and_decides_no_more():
    async def story() -> None:
        quorum = SimQuorum()
        old = Node(quorum.connect("a"))
        host = await old.lead()
        await host.submit(create("mine"))
        await Node(quorum.connect("b")).lead()
        with pytest.raises(Fenced):
            await host.submit(create("too-late"))
        assert [type(each) for each in old.lost] == [Fenced]
        with pytest.raises(Fenced):
            await host.submit(create("too-late-again"))
        with pytest.raises(Fenced):
            await host.wait_settled()
        assert host.failed is not None
        assert await topics(quorum.connect("c")) == ["mine"]
        await old.journal.close()

    run(story())


def test_snapshot_of_a_fenced_leader_is_refused():
    async def story() -> None:
        quorum = SimQuorum()
        old = Node(quorum.connect("a"))
        host = await old.lead()
        await host.submit(create("mine"))
        await Node(quorum.connect("b")).lead()
        with pytest.raises(Fenced):
            await host.take_snapshot()
        assert [type(each) for each in old.lost] == [Fenced]

    run(story())


def test_after_an_uncertain_outcome_leading_again_tells(seed: int):
    async def story() -> None:
        quorum = SimQuorum(seed)
        node = Node(quorum.connect("a"))
        host = await node.lead()
        await host.submit(create("certain"))
        quorum.lose = 1.0
        first, second = (
            asyncio.ensure_future(host.submit(create(name))) for name in ("first", "second")
        )
        outcomes = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(each) for each in node.lost] == [Uncertain]
        assert {type(each) for each in outcomes} == {Uncertain, Fenced}
        quorum.lose = 0.0
        again = await node.lead()
        there = await topics(quorum.connect("b"))
        for name, outcome in zip(("first", "second"), outcomes, strict=True):
            if isinstance(outcome, Fenced):
                assert name not in there
        for name in {"first", "second"} - set(there):
            await again.submit(create(name))
        assert await topics(quorum.connect("b")) == ["certain", "first", "second"]

    run(story())


def test_cancelled_caller_does_not_take_its_change_back():
    async def story() -> None:
        quorum = SimQuorum()
        host = await Node(quorum.connect("a")).lead()
        _, committed = host.submit_now(create("t"))
        assert committed is not None
        committed.cancel()
        await host.wait_settled()
        assert await topics(quorum.connect("b")) == ["t"]

    run(story())


def test_full_disk_refuses_at_once_and_the_term_goes_on():
    async def story() -> None:
        disk = SimDisk()
        node = Node(LocalQuorum(disk, clock()).connect())
        host = await node.lead()
        disk.fill_up(0)
        with pytest.raises(DiskFull):
            await host.submit(create("t"))
        disk.make_room()
        await host.submit(create("t"))
        assert node.lost == []

    run(story())


def test_failed_disk_is_told_and_loses_nobody_the_term():
    async def story() -> None:
        disk = SimDisk()
        node = Node(LocalQuorum(disk, clock()).connect())
        host = await node.lead()
        disk.fail_sync("*.log")
        with pytest.raises(StorageFailed):
            await host.submit(create("t"))
        assert host.failed is not None
        assert node.lost == []
        assert not node.journal.is_committed(Offset(0))

    run(story())
