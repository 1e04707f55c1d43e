"""Group commit: who waits for what, and what everyone is told when the disk fails."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.long_poll import LongPoll
from goqueue.model.errors import DiskFull, OutOfHandles, StorageFailed, TopicNotFound
from goqueue.model.ids import Offset
from goqueue.testing.sim import SimClock, SimDisk, run
from goqueue.testing.sim.loop import SimLoop
from tests.unit.broker.brokers import LonePartition, append, texts, values_in

FailureHistory = Callable[[SimDisk], Awaitable[None]]


def told(story: FailureHistory, seed: int = 0) -> None:
    async def main() -> None:
        await story(SimDisk(seed))

    run(main(), seed=seed)


def new_poll(wait_ms: int) -> LongPoll:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return LongPoll(SimClock(loop), wait_ms)


def syncs_of(disk: SimDisk) -> list[str]:
    """Paths of logs that are synced from now on."""
    seen: list[str] = []

    def watch(_number: int, operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log"):
            seen.append(path)

    disk.watch(watch)
    return seen


# --- commit ------------------------------------------------------------------------------------


def test_a_batch_is_seen_when_it_is_durable():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        appended = append(partition, "one")
        assert partition.log.high_watermark == 0
        assert await values_in(partition) == []
        await partition.wait_committed(appended.last_offset)
        assert await values_in(partition) == ["one"]
        survivors = [LonePartition(disk.crash(fate)) for fate in range(20)]
        assert all([await values_in(each) == ["one"] for each in survivors])

    told(story)


@pytest.mark.parametrize("flush", ["commit", "interval", "never"])
def test_so_many_messages_are_synced_although_nobody_waits(flush: str):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, flush=flush, **{"flush.messages": "3"})
        syncs = syncs_of(disk)
        append(partition, "one", "two")
        await asyncio.sleep(60)
        assert syncs == []
        append(partition, "three")
        await asyncio.sleep(60)
        assert len(syncs) == 1
        assert partition.log.synced_offset == 3
        survivor = LonePartition(disk.crash(1))
        assert await values_in(survivor) == ["one", "two", "three"]

    told(story)


def test_visible_is_durable_at_every_moment(seed: int):
    """Whatever readers see now, they also see if the power goes now."""

    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, **{"segment.bytes": "1024"})

        async def check() -> None:
            seen = await values_in(partition)
            for fate in range(3):
                recovered = await values_in(LonePartition(disk.crash(fate)))
                assert recovered[: len(seen)] == seen

        waiting = []
        for number in range(40):
            appended = append(partition, f"{number}", "x" * 40)
            assert partition.log.high_watermark <= partition.log.synced_offset
            waiting.append(partition.wait_committed(appended.last_offset))
            if number % 7 == 0:
                await waiting[number // 2]
                await check()
        await asyncio.gather(*waiting)
        await check()

    told(story, seed)


def test_one_sync_serves_all_who_wait_when_it_starts():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        syncs = syncs_of(disk)
        first = partition.wait_committed(append(partition, "first").last_offset)
        others = [
            partition.wait_committed(append(partition, text).last_offset)
            for text in texts(range(50))
        ]
        await asyncio.gather(first, *others)
        assert len(syncs) <= 2

    told(story)


def test_nobody_waits_so_nothing_is_synced():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        syncs = syncs_of(disk)
        for text in texts(range(20)):
            append(partition, text)
        await asyncio.sleep(100)  # of simulated time: it is the owner's timer that would sync
        assert syncs == []
        assert partition.dirty == 1
        await partition.flush()
        assert len(syncs) == 1
        append(partition, "more")
        assert partition.dirty == 2

    told(story)


@pytest.mark.parametrize("flush", ["interval", "never"])
def test_without_flush_commit_a_batch_is_seen_at_once(flush: str):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, flush=flush)
        syncs = syncs_of(disk)
        appended = append(partition, "one")
        assert await values_in(partition) == ["one"]
        await partition.wait_committed(appended.last_offset)
        assert syncs == []
        assert partition.log.needs_sync
        await partition.flush()
        assert len(syncs) == 1

    told(story)


@given(seed=st.integers(0, 1000), steps=st.lists(st.sampled_from("awfcr"), max_size=60))
def test_whoever_waits_is_answered_whatever_else_is_done(seed: int, steps: list[str]):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, **{"segment.bytes": "1024"})
        waiting: list[asyncio.Future[None]] = []
        written = 0
        for step in steps:
            if step == "a":
                appended = append(partition, str(written), "x" * 100)
                written += 1
                waiting.append(partition.wait_committed(appended.last_offset))
            elif step == "w" and waiting:
                await waiting[len(waiting) // 2]
            elif step == "f":
                await partition.flush()
            elif step == "c":
                await partition.checkpoint()
            elif step == "r":
                await partition.remove_before(Offset(partition.log.high_watermark // 2))
        await asyncio.gather(*waiting)
        assert partition.log.high_watermark == partition.log.end_offset == 2 * written
        await partition.close()
        assert len(await values_in(LonePartition(disk))) == 2 * written - partition.log.start_offset

    told(story, seed)


# --- readers that wait -------------------------------------------------------------------------


def test_a_reader_at_the_end_asks_for_the_sync_it_waits_for():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        append(partition, "before")
        with new_poll(10_000) as poll:
            poll.subscribe([partition])
            assert await poll.wait()
            assert await values_in(partition) == ["before"]
            append(partition, "after")
            assert await poll.wait()
            assert await values_in(partition) == ["before", "after"]
        append(partition, "unseen")
        assert not await poll.wait()
        assert await values_in(partition) == ["before", "after"]

    told(story)


# --- a disk that fails -------------------------------------------------------------------------


def test_a_failed_sync_is_told_to_all_who_wait_and_the_partition_is_read_only():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        await partition.wait_committed(append(partition, "safe").last_offset)
        disk.fail_sync("*.log")
        waiting = [partition.wait_committed(append(partition, text).last_offset) for text in "abc"]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in found] == [StorageFailed] * 3
        assert partition.log.failed is not None
        with pytest.raises(StorageFailed):
            append(partition, "more")
        with pytest.raises(StorageFailed):
            await partition.wait_committed(partition.log.end_offset)
        with pytest.raises(StorageFailed):
            await partition.flush()
        with pytest.raises(StorageFailed):
            await partition.checkpoint()
        assert await values_in(partition) == ["safe"]
        assert len([error for error in partition.flushes if error]) == 1
        await partition.close()
        assert (await values_in(LonePartition(disk.crash(1))))[:1] == ["safe"]

    told(story)


def test_a_write_that_fails_during_a_sync_leaves_nobody_waiting():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        early = partition.wait_committed(append(partition, "early").last_offset)
        late = partition.wait_committed(append(partition, "late").last_offset)
        disk.fail_append("*.log")
        with pytest.raises(StorageFailed):
            append(partition, "fails")
        found = await asyncio.wait_for(
            asyncio.gather(early, late, return_exceptions=True), timeout=60
        )
        assert all(each is None or isinstance(each, StorageFailed) for each in found)
        assert isinstance(found[1], StorageFailed)
        assert any(partition.flushes)

    told(story)


class HandlesUsedUp(SimDisk):
    """So many times there is no handle to sync a directory or to write a small file with."""

    missing = 0

    def sync_directory(self, path: str) -> None:
        self._take_handle()
        super().sync_directory(path)

    def replace_file(self, path: str, data: bytes) -> None:
        self._take_handle()
        super().replace_file(path, data)

    def _take_handle(self) -> None:
        if self.missing:
            self.missing -= 1
            raise OutOfHandles("too many open files")


@pytest.mark.parametrize("missing", [1, 3])
def test_a_process_without_handles_is_no_reason_to_go_read_only(missing: int):
    """What waits for a sync waits a little longer; a checkpoint is written the next time."""

    async def story() -> None:
        disk = HandlesUsedUp()
        partition = LonePartition(disk)
        await partition.wait_committed(append(partition, "zero").last_offset)
        partition.log.roll()  # the directory has to be synced
        disk.missing = missing
        appended = append(partition, "one")
        await asyncio.gather(
            partition.wait_committed(appended.last_offset),
            partition.flush(),
            partition.flush_visible(),
        )
        assert not disk.missing
        disk.missing = 1
        with pytest.raises(OutOfHandles):
            await partition.checkpoint()
        await partition.wait_committed(append(partition, "two").last_offset)
        assert partition.log.failed is None
        assert partition.log.needs_checkpoint
        await partition.checkpoint()
        assert await values_in(partition) == ["zero", "one", "two"]
        await partition.close()

    run(story())


@pytest.mark.parametrize("step", ["checkpoint", "remove"])
def test_a_full_disk_is_no_reason_to_go_read_only(step: str):
    """A checkpoint needs room; what waits for a sync does not."""

    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        await partition.wait_committed(append(partition, "one").last_offset)
        waiting = partition.wait_committed(append(partition, "two").last_offset)
        disk.fill_up(0)
        if step == "checkpoint":
            work: Awaitable[object] = partition.checkpoint()
        else:
            await waiting
            work = partition.remove_before(Offset(1))
        with pytest.raises(DiskFull):
            await work
        with pytest.raises(DiskFull):
            append(partition, "three")
        await waiting
        assert partition.log.failed is None
        assert partition.log.needs_checkpoint
        disk.make_room()
        await partition.wait_committed(append(partition, "four").last_offset)
        await partition.close()
        reopened = LonePartition(disk)
        assert (await values_in(reopened))[-2:] == ["two", "four"]

    told(story)


def test_a_deleted_topic_lets_nobody_wait():
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        waiting = partition.wait_committed(append(partition, "one").last_offset)
        poll = new_poll(1_000)
        poll.subscribe([partition])
        partition.abandon()
        assert await poll.wait()
        with pytest.raises(TopicNotFound):
            await waiting
        with pytest.raises(TopicNotFound):
            append(partition, "two")
        with pytest.raises(TopicNotFound):
            await partition.wait_committed(Offset(5))
        with pytest.raises(TopicNotFound):
            await partition.checkpoint()
        await partition.wait_idle()

    told(story)


# --- fairness ----------------------------------------------------------------------------------


def test_upkeep_comes_to_its_turn_under_constant_load(seed: int):
    """One sync follows on the other without a pause; checkpoints and removals must get between."""

    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk, **{"segment.bytes": "1024"})
        stopped = asyncio.Event()

        async def load() -> None:
            while not stopped.is_set():
                await partition.wait_committed(append(partition, "x" * 50).last_offset)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(load())
            async with asyncio.timeout(1):  # some dozens of syncs
                for _ in range(3):
                    await partition.checkpoint()
                    await partition.remove_before(Offset(partition.log.high_watermark // 2))
            stopped.set()
        assert partition.log.start_offset > 0

    told(story, seed)


def test_a_flush_ends_though_others_write_on(seed: int):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        stopped = asyncio.Event()

        async def load() -> None:
            while not stopped.is_set():
                await partition.wait_committed(append(partition, "x").last_offset)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(load())
            for _ in range(5):
                mine = append(partition, "mine").last_offset
                async with asyncio.timeout(1):
                    await partition.flush_visible()
                assert partition.log.high_watermark > mine
            stopped.set()

    told(story, seed)


def test_upkeep_that_is_cancelled_while_it_waits_holds_up_nobody(seed: int):
    async def story(disk: SimDisk) -> None:
        partition = LonePartition(disk)
        first = partition.wait_committed(append(partition, "one").last_offset)
        async with asyncio.TaskGroup() as tasks:
            upkeep = [tasks.create_task(partition.checkpoint()) for _ in range(3)]
            await asyncio.sleep(0)
            second = partition.wait_committed(append(partition, "two").last_offset)
            for task in upkeep:
                task.cancel()
        async with asyncio.timeout(1):
            await asyncio.gather(first, second)

    told(story, seed)
