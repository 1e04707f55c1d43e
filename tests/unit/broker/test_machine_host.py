"""The host of machines: nothing is answered before it is durable, and replay brings it all back."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator

import msgspec
import pytest

from goqueue.broker import MachineHost
from goqueue.broker.machine_host import REPLAY_RECORDS, SLICE_RECORDS
from goqueue.broker.storage import log_snapshot
from goqueue.broker.storage.log_snapshot import Pieces, find_piece
from goqueue.broker.storage.partition_journal import PartitionJournal
from goqueue.model import batch as batches
from goqueue.model.errors import CorruptData, DiskFull, InvalidRequest, StorageFailed
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.machine import Decision
from goqueue.model.snapshots import Walk
from goqueue.runtime import Environment
from goqueue.testing.sim import SimClock, SimCrash, SimDisk, SimLoop, World, run
from tests.unit.broker.brokers import LonePartition, running

SNAPSHOTS = "/snapshots"
LOG = f"/log/{0:020d}.log"


class Added(msgspec.Struct, frozen=True):
    number: int
    due: Timestamp | None = None


class Counted(msgspec.Struct, frozen=True):
    name: int
    number: int


class Sum:
    """A machine small enough to know by heart: it adds, and on its deadline adds 1000."""

    def __init__(self) -> None:
        self.total = 0
        self.applied = 0
        self.due: Timestamp | None = None

    def add(self, number: int, due: Timestamp | None = None) -> Decision[Added, int]:
        if number < 0:
            raise DiskFull("no")
        return Decision((Added(number, due),) if number else (), self.total + number)

    def apply(self, record: Added) -> None:
        self.total += record.number
        self.applied += 1
        self.due = record.due

    def snapshot(self) -> Generator[Added, None, None]:
        return (each for each in [Added(self.total, self.due)])

    def encode(self, record: Added) -> bytes:
        return msgspec.json.encode(record)

    def decode(self, data: bytes) -> Added:
        return msgspec.json.decode(data, type=Added)

    def next_deadline(self) -> Timestamp | None:
        return self.due

    def on_deadline(self, now: Timestamp) -> Decision[Added, None]:
        return Decision((Added(1000),), None)


def clock() -> SimClock:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return SimClock(loop)


async def opened(disk: SimDisk) -> MachineHost[Sum]:
    journal = PartitionJournal(LonePartition(disk), disk, clock(), SNAPSHOTS)
    host = MachineHost(Sum(), journal, clock())
    await host.open()
    return host


async def add(host: MachineHost[Sum], number: int, due: Timestamp | None = None) -> int:
    return await host.submit(lambda machine: machine.add(number, due))


async def reopened(disk: SimDisk) -> Sum:
    return (await opened(disk)).ahead


def whole_snapshots(disk: SimDisk) -> list[Offset]:
    """Where those begin that are whole, of all that the file of the log still has."""
    found, pieces = [], Pieces()
    data = disk.read_file(LOG) or b""
    for header in batches.headers(data):
        piece = find_piece(data, header)
        whole = None if piece is None else pieces.note(piece)
        if whole is not None:
            found.append(whole[0])
    return found


def test_an_answer_is_given_when_its_records_are_durable():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        for number in range(1, 20):
            reply = await add(host, number)
            for fate in range(3):
                assert (await reopened(disk.crash(fate))).total >= reply

    run(story())


def test_others_have_their_turn_while_a_long_log_is_replayed(monkeypatch):
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        for number in range(5_000):
            host.write(lambda machine, number=number: machine.add(number + 1))  # type: ignore[misc]
        await host.wait_settled()
        turns, applied = list[int](), 0  # how many were applied when others had their turn
        apply, loop = Sum.apply, asyncio.get_running_loop()

        def take_turn() -> None:
            turns.append(applied)
            if applied < 5_000:
                loop.call_soon(take_turn)

        def count(self: Sum, record: Added) -> None:
            nonlocal applied
            applied += 1
            apply(self, record)
            if applied == 1:
                loop.call_soon(take_turn)

        monkeypatch.setattr(Sum, "apply", count)
        assert (await opened(disk)).ahead.total == host.ahead.total
        assert applied == 5_000
        # The simulated loop chooses at random who is next.
        assert len(turns) > 5_000 / REPLAY_RECORDS / 4

    run(story())


def test_what_is_written_is_synced_when_somebody_wants_it_durable():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        done: list[str] = []
        disk.watch(lambda _number, what, _path: done.append(what))
        reply, written = host.write(lambda machine: machine.add(7))
        assert reply == host.ahead.total == 7
        await asyncio.sleep(1)
        assert done
        assert "sync" not in done, "nobody asked"
        await host.durable(written)
        await host.durable(written)  # it is
        for fate in range(3):
            assert (await reopened(disk.crash(fate))).total == 7

    run(story())


def test_what_is_refused_or_changes_nothing_writes_nothing():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        before = disk.operations
        assert await add(host, 0) == 0
        with pytest.raises(DiskFull):
            await add(host, -1)
        assert disk.operations == before

    run(story())


# --- what is shown is committed -------------------------------------------------------------------


def refuse(machine: Sum) -> int:
    raise InvalidRequest(f"{machine.total} is there")


def refuse_to_decide(machine: Sum) -> Decision[Added, int]:
    raise InvalidRequest(f"{machine.total} is there")


async def refusal(work: Awaitable[int]) -> int:
    with pytest.raises(InvalidRequest) as refused:
        await work
    return int(str(refused.value).split()[0])


SHOWN: dict[str, Callable[[MachineHost[Sum]], Awaitable[int]]] = {
    "a read": lambda host: host.read(lambda machine: machine.total),
    "the refusal of a read": lambda host: refusal(host.read(refuse)),
    "a reply that writes nothing": lambda host: add(host, 0),
    "a refusal": lambda host: refusal(host.submit(refuse_to_decide)),
}


@pytest.mark.parametrize("shown", SHOWN)
def test_what_is_shown_outlives_a_power_cut(shown: str):
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        for number in range(1, 6):
            host.write(lambda machine, number=number: machine.add(number))  # type: ignore[misc]
            seen = await SHOWN[shown](host)
            assert seen == host.ahead.total
            for fate in range(3):
                assert (await reopened(disk.crash(fate))).total >= seen

    run(story())


@pytest.mark.parametrize("shown", SHOWN)
def test_what_is_not_committed_for_a_failed_disk_is_never_shown(shown: str):
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        await add(host, 1)
        disk.fail_sync(LOG)
        with pytest.raises(StorageFailed):
            await add(host, 2)
        with pytest.raises(StorageFailed):
            await SHOWN[shown](host)

    run(story())


@pytest.mark.parametrize("shown", SHOWN)
def test_what_is_committed_is_shown_at_once(shown: str):
    """A failed disk does not matter, and nobody gets a turn in between."""

    async def story() -> None:
        host = await opened(SimDisk())
        await add(host, 3)
        with pytest.raises(StopIteration) as done:
            next(SHOWN[shown](host).__await__())
        assert done.value.value == 3

    run(story())


def test_a_read_shows_one_moment():
    async def story() -> None:
        host = await opened(SimDisk())
        host.write(lambda machine: machine.add(1))
        reading = host.read(lambda machine: machine.total).__await__()
        next(reading)  # it has looked, and waits
        host.write(lambda machine: machine.add(10))
        await host.wait_settled()
        with pytest.raises(StopIteration) as done:
            next(reading)
        assert done.value.value == 1

    run(story())


def test_what_is_deferred_is_shown_before_it_is_written():
    """A restart finds it undone, and does it again: nobody waits for it."""

    async def story() -> None:
        host = await opened(SimDisk())
        host.defer(lambda machine: machine.add(5))
        assert await host.read(lambda machine: machine.total) == 5

    run(story())


def test_what_is_deferred_is_written_with_the_next_and_costs_nothing_before():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        await add(host, 1)
        before = disk.operations
        host.defer(lambda machine: machine.add(10))
        assert host.ahead.total == 11
        assert disk.operations == before
        assert (await reopened(disk.crash(1))).total == 1, "nobody may rely on it"
        await add(host, 100)
        for fate in range(3):
            again = await reopened(disk.crash(fate))
            assert (again.total, again.applied) == (111, 3), "before the next, and once"

    run(story())


def test_what_is_deferred_is_in_the_log_before_a_snapshot_is_taken():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        host.defer(lambda machine: machine.add(10))
        await host.take_snapshot()
        await add(host, 1)
        assert (await reopened(disk.crash(1))).total == 11

    run(story())


def test_all_that_was_decided_is_durable_when_it_is_said_so():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        host.defer(lambda machine: machine.add(10))
        await host.all_committed()
        assert (await reopened(disk.crash(1))).total == 10

    run(story())


def test_a_full_disk_leaves_the_machine_as_it_was():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        await add(host, 1)
        disk.fill_up(0)
        with pytest.raises(DiskFull):
            await add(host, 2)
        assert host.ahead.total == 1
        disk.make_room()
        await add(host, 4)
        assert (await reopened(disk.crash(1))).total == 5

    run(story())


def test_a_failed_sync_is_told():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        disk.fail_sync("*.log")
        with pytest.raises(StorageFailed):
            await add(host, 2)
        assert host.failed is not None

    run(story())


def test_damage_behind_the_checkpoint_does_not_set_a_machine_back():
    """Each record was answered: it is refused to go on without one, also without the last."""

    async def story() -> None:
        for number in range(10):
            disk = SimDisk()
            host = await opened(disk)
            sizes = []
            for each in range(10):
                await add(host, each + 1)
                sizes.append(disk.size(LOG))
            killed = disk.kill()
            killed.flip_bit(LOG, sizes[number] - 1)
            with pytest.raises(CorruptData, match=f"offsets {number} to {number}"):
                await opened(killed)

    run(story())


def test_a_snapshot_that_cannot_be_written_does_not_end_the_host():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        await add(host, 1)
        running = asyncio.ensure_future(host.run())
        disk.fill_up(0)
        await asyncio.sleep(1000)
        assert not running.done()
        assert whole_snapshots(disk) == []
        disk.make_room()
        await add(host, 1)
        await asyncio.sleep(1000)
        assert len(whole_snapshots(disk)) == 1
        running.cancel()

    run(story())


def test_deadlines_are_met_and_met_again_when_that_failed():
    async def story() -> None:
        disk = SimDisk()
        host = await opened(disk)
        running = asyncio.ensure_future(host.run())
        due = Timestamp(clock().now() + 5000)
        await add(host, 1, due)
        await asyncio.sleep(4.9)
        assert host.ahead.total == 1
        disk.fill_up(0)
        await asyncio.sleep(5)
        assert host.ahead.total == 1
        disk.make_room()
        await asyncio.sleep(2)
        assert host.ahead.total == 1001
        running.cancel()

    run(story())


class Counters:
    """Numbers by name, each a part of a snapshot, that reads them out while others are set."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.due: Timestamp | None = None
        self._walk: Walk[int, Counted] | None = None

    def count(self, *names: int) -> Decision[Counted, None]:
        return Decision([Counted(each, 1) for each in names], None)

    def apply(self, record: Counted) -> None:
        if self._walk is not None:
            self._walk.keep(record.name)
        self.numbers[record.name] = self.numbers.get(record.name, 0) + record.number

    def snapshot(self) -> Generator[Counted, None, None]:
        self._walk = Walk(list(self.numbers), lambda name: Counted(name, self.numbers.get(name, 0)))
        return (each for each in self._walk)

    def encode(self, record: Counted) -> bytes:
        return msgspec.json.encode(record)

    def decode(self, data: bytes) -> Counted:
        return msgspec.json.decode(data, type=Counted)

    def next_deadline(self) -> Timestamp | None:
        return self.due

    def on_deadline(self, now: Timestamp) -> Decision[Counted, None]:
        self.due = None
        return Decision((Counted(-1, 1),), None)


async def counting(disk: SimDisk) -> MachineHost[Counters]:
    journal = PartitionJournal(LonePartition(disk), disk, clock(), SNAPSHOTS)
    host = MachineHost(Counters(), journal, clock())
    await host.open()
    return host


def counted(*names: int) -> Callable[[Counters], Decision[Counted, None]]:
    return lambda machine: machine.count(*names)


def test_a_snapshot_is_written_in_slices_while_others_go_on(monkeypatch):
    async def story() -> None:
        disk = SimDisk()
        host = await counting(disk)
        await host.submit(counted(*range(2_000)))
        encoded = list[Counted]()
        slices = list[int]()  # records encoded between two turns of others
        encode_slice = log_snapshot.encode_slice

        def note_slice(at: Offset, records: list[bytes], now: Timestamp) -> bytearray:
            slices.append(len(encoded))
            encoded.clear()
            return encode_slice(at, records, now)

        def encode(record: Counted) -> bytes:
            encoded.append(record)
            return msgspec.json.encode(record)

        monkeypatch.setattr(log_snapshot, "encode_slice", note_slice)
        monkeypatch.setattr(host.ahead, "encode", encode)
        taking = asyncio.ensure_future(host.take_snapshot())
        await asyncio.sleep(0)
        turns = 0
        while not taking.done():
            host.write(counted(1_999 - turns))  # the snapshot is not there yet
            encoded.pop()
            turns += 1
            await asyncio.sleep(0.0001)
        await taking
        assert sum(slices) == 2_000
        assert max(slices) <= SLICE_RECORDS
        assert turns > 10
        await host.wait_settled()
        for fate in range(3):
            again = await counting(disk.crash(fate))
            assert again.ahead.numbers == host.ahead.numbers

    run(story())


def test_deadlines_fire_while_a_snapshot_is_written():
    async def story() -> None:
        disk = SimDisk(latency_s=(1.0, 1.0))
        host = await counting(disk)
        await host.submit(counted(*range(2_000)))
        running = asyncio.ensure_future(host.run())
        taking = asyncio.ensure_future(host.take_snapshot())
        await asyncio.sleep(0.1)
        host.ahead.due = clock().steady()
        host.notice_deadline()
        await asyncio.sleep(0.1)
        assert -1 in host.ahead.numbers
        assert not taking.done()
        running.cancel()
        await taking

    run(story())


def test_a_power_cut_while_a_snapshot_is_written_loses_nothing(seed: int):
    """At each step of several snapshots, with records in between."""

    async def story(disk: SimDisk) -> None:
        host = await counting(disk)
        await host.submit(counted(*range(300)))
        answered.append(1)
        for _ in range(5):
            taking = asyncio.ensure_future(host.take_snapshot())
            while not taking.done():
                await host.submit(counted(298, 299))
                answered.append(host.ahead.numbers[299])
            await taking

    async def count_steps() -> int:
        disk = SimDisk()
        await story(disk)
        return disk.operations

    async def check(disk: SimDisk) -> None:
        again = (await counting(disk)).ahead.numbers
        known = max(answered, default=0)
        assert known <= again.get(299, 0) <= known + 1, "all that was answered, and each once"
        assert again.get(298) == again.get(299)
        assert len(again) in (0, 300)

    answered: list[int] = []
    steps = run(count_steps())
    for step in range(1, steps, 3):
        answered.clear()
        disk = SimDisk(seed=seed + step)
        disk.crash_at(step)
        with contextlib.suppress(SimCrash):
            run(story(disk))
        run(check(disk.crash(seed)))


def test_the_next_snapshot_is_due_when_the_log_has_grown_by_half_the_last(monkeypatch):
    monkeypatch.setattr("goqueue.broker.machine_host.SNAPSHOT_RECORDS", 10)

    async def story() -> None:
        disk = SimDisk()
        host = await counting(disk)
        running = asyncio.ensure_future(host.run())
        await host.submit(counted(*range(1_000)))
        await asyncio.sleep(1)
        assert len(whole_snapshots(disk)) == 1
        size = host._snapshot_bytes
        before, written = host.ahead.numbers.copy(), 0
        while len(whole_snapshots(disk)) == 1:
            await host.submit(counted(5))
            written += len(msgspec.json.encode(Counted(5, 1)))
            await asyncio.sleep(0.1)
        assert size * 0.4 < written < size * 0.6
        assert host.ahead.numbers.keys() == before.keys()
        await host.submit(counted(5))
        await asyncio.sleep(400)
        assert len(whole_snapshots(disk)) == 3, "some time after a change"
        await asyncio.sleep(1_000)
        assert len(whole_snapshots(disk)) == 3, "nothing has changed"
        running.cancel()

    run(story())


def test_the_broker_is_the_same_after_many_snapshots_and_crashes(seed: int):
    async def first(environment: Environment) -> None:
        async with running(environment) as broker:
            for number in range(12):
                await broker.create_topic(f"t{number}", settings={"retention.ms": f"{number}"})
                if number % 3 == 0:
                    await broker.controller.host.take_snapshot()
                if number % 4 == 0:
                    await broker.delete_topic(f"t{number}")
            found.append((broker.cluster_id, broker.topics()))

    async def second(environment: Environment) -> None:
        async with running(environment) as broker:
            found.append((broker.cluster_id, broker.topics()))
            assert broker.controller.host.ahead.next_producer_id == 0
            assert await broker.reserve_producer_id() == 0

    async def third(environment: Environment) -> None:
        async with running(environment) as broker:
            assert await broker.reserve_producer_id() == 1000

    found: list[object] = []
    with World(seed) as world:
        for story in (first, second, third):
            world.start("a", story)
            world.run_until(lambda: not world.alive("a"))
            world.power_loss("a")
    assert found[0] == found[1]
