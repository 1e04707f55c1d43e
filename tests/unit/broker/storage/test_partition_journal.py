"""A journal on a partition: what it takes, and how snapshots in the log shorten it."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker import MachineHost, machine_host
from goqueue.broker.storage import partition_journal, snapshot_file
from goqueue.broker.storage.partition_journal import BATCH_RECORDS_MAX, PartitionJournal
from goqueue.broker.storage.snapshot_file import WholeSnapshot
from goqueue.cluster.replication import Follower, Leader
from goqueue.log import framed, open_log
from goqueue.log.replica import Replica
from goqueue.model.errors import (
    CorruptData,
    DiskFull,
    GoQueueError,
    LeadershipLost,
    NotEnoughReplicas,
    NotLeader,
)
from goqueue.model.ids import Epoch, NodeId, Offset
from goqueue.model.settings import topic_settings
from goqueue.testing.sim import SimCrash, SimDisk, run
from tests.unit.broker.brokers import NODE, LonePartition
from tests.unit.broker.test_machine_host import (
    LOG,
    Added,
    Counters,
    Sum,
    add,
    clock,
    counted,
    counting,
    opened,
    reopened,
    whole_snapshots,
)

SNAPSHOTS = "/snapshots"


async def begin_snapshot(host: MachineHost[Any]) -> asyncio.Future[None]:
    """Return when its first slice is in the log."""
    journal = host._journal
    assert isinstance(journal, PartitionJournal)
    end = journal._partition.log.end_offset
    taking = asyncio.ensure_future(host.take_snapshot())
    while journal._partition.log.end_offset == end:  # noqa: ASYNC110 # no event tells of it
        await asyncio.sleep(0)
    return taking


def test_a_snapshot_in_the_log_shortens_it():
    async def story() -> None:
        disk = SimDisk()
        partition = LonePartition(disk)
        host = MachineHost(Sum(), PartitionJournal(partition, disk, clock(), SNAPSHOTS), clock())
        await host.open()
        for number in range(1, 11):
            await add(host, number)
            before = partition.log.end_offset
            await host.take_snapshot()
            assert partition.log.start_offset == before
        assert not disk.exists(SNAPSHOTS)
        machine = await reopened(disk.crash(1))
        assert (machine.total, machine.applied) == (55, 1)

    run(story())


def test_values_between_the_slices_follow_the_snapshot(monkeypatch):
    monkeypatch.setattr(machine_host, "SLICE_RECORDS", 1)

    async def story() -> None:
        disk = SimDisk()
        host = await counting(disk)
        await host.submit(counted(*range(10)))
        taking = await begin_snapshot(host)
        between = 0
        while not taking.done():
            host.write(counted(9, 100))
            between += 1
            await asyncio.sleep(0.0001)
        await host.wait_settled()
        again = await counting(disk.crash(1))
        assert again.ahead.numbers == host.ahead.numbers
        assert again.ahead.numbers[100] == between > 10
        assert again.records_since_snapshot == 2 * between, "slices are no growth"
        assert again._snapshot_bytes == host._snapshot_bytes > 0

    run(story())


def test_readers_do_not_wait_for_slices(monkeypatch):
    monkeypatch.setattr(machine_host, "SLICE_RECORDS", 1)

    async def story() -> None:
        host = await counting(SimDisk())
        await host.submit(counted(*range(10)))
        taking = await begin_snapshot(host)
        assert host.pending_commit() is None
        await taking

    run(story())


def test_a_snapshot_without_an_end_is_passed_over(monkeypatch):
    monkeypatch.setattr(machine_host, "SLICE_RECORDS", 1)

    async def story() -> None:
        disk = SimDisk()
        host = await counting(disk)
        await host.submit(counted(1, 2, 3))
        for _ in range(2):
            taking = await begin_snapshot(host)
            host.write(counted(1))
            taking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await taking
            await host.wait_settled()
            assert (await counting(disk.crash(1))).ahead.numbers == host.ahead.numbers
        assert whole_snapshots(disk) == []
        await host.take_snapshot()
        await host.submit(counted(1))
        assert len(whole_snapshots(disk)) == 1
        assert (await counting(disk.crash(1))).ahead.numbers == {1: 4, 2: 1, 3: 1}

    run(story())


def test_a_snapshot_of_a_former_epoch_gets_no_end(monkeypatch):
    """Another leader may have written in between, and this node leads again."""
    monkeypatch.setattr(machine_host, "SLICE_RECORDS", 2)

    async def story() -> None:
        disk = SimDisk()
        partition = LonePartition(disk)
        journal = PartitionJournal(partition, disk, clock(), SNAPSHOTS)
        host = MachineHost(Counters(), journal, clock())
        await host.open()
        await host.submit(counted(1))
        taking = await begin_snapshot(host)
        partition.take_role(Follower(NodeId(2), Epoch(1)))
        partition.take_role(Leader.alone(NODE, Epoch(2)))
        with pytest.raises(LeadershipLost):
            await taking
        partition.take_role(Follower(NodeId(2), Epoch(3)))
        with pytest.raises(NotLeader):
            await host.take_snapshot()
        assert whole_snapshots(disk) == []

    run(story())


def test_a_damaged_slice_is_told():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        await add(host, 1)
        at = disk.size(LOG)
        await host.take_snapshot()
        await add(host, 2)
        disk.flip_bit(LOG, at + 70)
        with pytest.raises(CorruptData, match="offsets 1 to 1"):
            await opened(disk)

    run(story())


def test_a_log_that_begins_without_a_snapshot_is_refused():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        await add(host, 1)
        await add(host, 2)
        partition = LonePartition(disk)
        await partition.remove_before(Offset(1))
        with pytest.raises(CorruptData, match="restore"):
            await opened(disk)

    run(story())


def test_half_a_snapshot_does_not_fill_a_full_disk():
    async def story() -> None:
        disk = SimDisk()
        host = await counting(disk)
        await host.submit(counted(*range(5_000)))
        await host.take_snapshot()
        before = disk.size(LOG)
        disk.fill_up(host._snapshot_bytes // 2)
        with pytest.raises(DiskFull):
            await host.take_snapshot()
        assert disk.size(LOG) - before < host._snapshot_bytes // 10
        disk.make_room()
        await host.take_snapshot()
        assert (await counting(disk.crash(1))).ahead.numbers == host.ahead.numbers

    run(story())


# --- snapshots in files, of former releases -------------------------------------------------------


def test_snapshots_of_the_first_version_are_read():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        for number in range(1, 11):
            await add(host, number)
        old = WholeSnapshot(Offset(10), [Sum().encode(Added(55))])
        disk.make_directory(SNAPSHOTS)
        framed.store(disk, snapshot_file.path_of(SNAPSHOTS, Offset(10)), b"S", 1, old)
        await add(host, 100)
        machine = await reopened(disk)
        assert (machine.total, machine.applied) == (155, 2)

    run(story())


async def write_as_before(disk: SimDisk) -> None:
    """Ten numbers; a file stands for five, and the log begins with the fifth."""
    host = await opened(disk)
    for number in range(1, 11):
        await add(host, number)
    disk.make_directory(SNAPSHOTS)
    for offset, total in ((4, 10), (5, 15)):
        path = snapshot_file.path_of(SNAPSHOTS, Offset(offset))
        writer = snapshot_file.SnapshotWriter(disk, path, Offset(offset))
        writer.add([Sum().encode(Added(total))])
        writer.finish()
    await LonePartition(disk).remove_before(Offset(4))


def test_a_file_is_read_until_the_log_has_a_snapshot_which_is_soon():
    async def story() -> None:
        disk = SimDisk()
        await write_as_before(disk)
        host = await opened(disk)
        assert (host.ahead.total, host.ahead.applied) == (55, 6)
        running = asyncio.ensure_future(host.run())
        await asyncio.sleep(1)
        running.cancel()
        assert len(whole_snapshots(disk)) == 1
        assert not disk.list_directory(SNAPSHOTS)
        machine = await reopened(disk.crash(1))
        assert (machine.total, machine.applied) == (55, 1)

    run(story())


def test_a_power_cut_while_files_are_replaced_loses_nothing(seed: int):
    async def story(disk: SimDisk) -> None:
        await write_as_before(disk)
        begins.append(disk.operations)
        await (await opened(disk)).take_snapshot()

    async def check(disk: SimDisk) -> None:
        assert (await reopened(disk)).total == 55

    begins: list[int] = []
    whole = SimDisk()
    run(story(whole))
    for step in range(begins[0] + 1, whole.operations + 1):
        disk = SimDisk(seed=seed + step)
        disk.crash_at(step)
        with contextlib.suppress(SimCrash):
            run(story(disk))
        run(check(disk.crash(seed)))


# --- any history ----------------------------------------------------------------------------------

NAMES = st.integers(0, 4)
STEPS = st.one_of(
    st.tuples(st.just("count"), st.lists(NAMES, min_size=1, max_size=3)),
    st.tuples(st.just("settle"), st.none()),
    st.tuples(st.just("begin"), st.none()),
    st.tuples(st.just("turns"), st.integers(1, 6)),
    st.tuples(st.just("crash"), st.integers(0, 3)),
    st.tuples(st.just("depose"), st.floats(0, 1)),
)


class LaggingPartition(LonePartition):
    """Its log begins anywhere below where it may: a follower's does that is not as far."""

    share = 1.0

    async def remove_before(self, offset: Offset) -> int:
        start = self.log.start_offset
        return await super().remove_before(Offset(start + round(self.share * (offset - start))))


class History:
    """A machine that loses its node or its office at any time, and what it must know by then."""

    def __init__(self, share: float) -> None:
        self.share = share  # of what may be cut
        self.disk = SimDisk()
        self.epoch = 0
        self.decided: list[tuple[Offset, list[int]]] = []  # that may still be in the log
        self.taking: list[asyncio.Future[None]] = []

    async def lead(self) -> None:
        settings = topic_settings({"segment.bytes": "1024"})
        self.partition = LaggingPartition(self.disk)
        self.partition.share = self.share
        self.partition.log, _ = open_log(self.disk, "/log", settings, Replica(None, 0))
        await self.go_on()

    async def go_on(self) -> None:
        """Another leader's log is this, and this node leads."""
        self.epoch += 1
        self.partition.take_role(Leader.alone(NODE, Epoch(self.epoch)))
        journal = PartitionJournal(self.partition, self.disk, clock(), SNAPSHOTS)
        self.host = MachineHost(Counters(), journal, clock())
        await self.host.open()
        end = self.partition.log.end_offset
        self.decided = [each for each in self.decided if each[0] < end]
        self.check()

    def check(self) -> None:
        known = Counter(name for _, names in self.decided for name in names)
        assert self.host.ahead.numbers == dict(known)

    async def take(self, what: str, how: Any) -> None:
        match what:
            case "count":
                _, last = self.host.write(counted(*how))
                assert last is not None
                self.decided.append((last, how))
            case "settle":
                await self.host.wait_settled()
            case "begin":
                self.taking.append(asyncio.ensure_future(self.host.take_snapshot()))
            case "turns":
                for _ in range(how):
                    await asyncio.sleep(0.0002)
            case "crash":
                self.disk = self.disk.crash(how)
                await self.lead()
            case _:
                assert what == "depose"
                await self.depose(how)

    async def depose(self, share: float) -> None:
        """What was not committed goes, all or some of it; nobody waits for the snapshot's task."""
        self.host.resign(lambda: NotLeader("gone"), lambda: LeadershipLost("gone"))
        log = self.partition.log
        cut = log.high_watermark + round(share * (log.end_offset - log.high_watermark))
        self.epoch += 1
        self.partition.take_role(Follower(NodeId(2), Epoch(self.epoch)))
        await self.partition.truncate_to(Offset(cut))
        await self.go_on()

    async def finish(self) -> None:
        for task in self.taking:
            with contextlib.suppress(GoQueueError, SimCrash):
                await task
        self.check()
        await self.host.take_snapshot()
        await self.take("crash", 0)


@given(st.lists(STEPS, max_size=40), st.integers(1, 300), st.sampled_from([1.0, 0.7, 0.3]))
def test_any_history_of_decisions_snapshots_and_losses_is_the_replay_of_its_decisions(
    steps: list[tuple[str, Any]], unsynced: int, share: float
):
    async def story() -> None:
        history = History(share)
        await history.lead()
        for step in steps:
            await history.take(*step)
        await history.finish()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(machine_host, "SLICE_RECORDS", 1)
        patched.setattr(partition_journal, "UNSYNCED_BYTES_MAX", unsynced)
        run(story())


def test_nothing_is_decided_while_too_few_replicas_are_in_sync():
    async def story() -> None:
        disk = SimDisk()
        partition = LonePartition(disk, **{"min.insync.replicas": "2"})
        host = MachineHost(Sum(), PartitionJournal(partition, disk, clock(), SNAPSHOTS), clock())
        await host.open()
        both = (NODE, NodeId(2))
        alone = Leader(node=NODE, epoch=Epoch(1), replicas=both, isr=frozenset((NODE,)))
        partition.take_role(alone)
        with pytest.raises(NotEnoughReplicas):
            await add(host, 1)
        assert host.ahead.total == 0, "the machine is not ahead of what can be committed"
        assert partition.log.end_offset == 0
        assert host.epoch == 1

    run(story())


def test_many_values_are_appended_together_in_several_batches():
    async def story() -> None:
        disk = SimDisk()
        journal = PartitionJournal(LonePartition(disk), disk, clock(), SNAPSHOTS)
        values = [b"%d" % number for number in range(BATCH_RECORDS_MAX + 1)]
        assert journal.append(values) == BATCH_RECORDS_MAX
        assert journal.has_uncommitted
        await journal.wait_settled()
        assert not journal.has_uncommitted
        assert journal.is_committed(Offset(BATCH_RECORDS_MAX))
        read = [value async for some in journal.read(Offset(1)) for value in some.values]
        assert read == values[1:]
        part = [value async for some in journal.read(Offset(0), Offset(2)) for value in some.values]
        assert part[:2] == values[:2]

    run(story())
