"""What the pretend disk keeps, loses and breaks."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import DiskFull, StorageFailed
from goqueue.testing.sim import Moment, SimCrash, SimDisk, run

FATES = range(60)


def new_disk(seed: int = 0) -> SimDisk:
    disk = SimDisk(seed)
    disk.make_directory("/d")
    return disk


def durable_file(disk: SimDisk, path: str, data: bytes) -> None:
    file = disk.open(path)
    file.append(data)
    file.sync()
    file.close()
    disk.sync_directory("/d")


def outcomes(disk: SimDisk, look: Callable[[SimDisk], object]) -> set[object]:
    return {look(disk.crash(fate)) for fate in FATES}


def content(path: str) -> Callable[[SimDisk], object]:
    return lambda disk: disk.read_file(path)


# --- power loss ------------------------------------------------------------------------------


def test_synced_bytes_survive_and_others_survive_up_to_any_byte():
    disk = new_disk()
    durable_file(disk, "/d/log", b"safe")
    file = disk.open("/d/log")
    file.append(b"ab")
    file.append(b"cd")
    assert outcomes(disk, content("/d/log")) == {b"safe" + b"abcd"[:end] for end in range(5)}


def test_a_synced_file_without_a_synced_name_may_be_gone():
    disk = new_disk()
    file = disk.open("/d/log")
    file.append(b"safe")
    file.sync()
    assert outcomes(disk, content("/d/log")) == {None, b"safe"}
    disk.sync_directory("/d")
    assert outcomes(disk, content("/d/log")) == {b"safe"}


def test_a_cut_that_was_not_synced_may_not_have_happened():
    disk = new_disk()
    durable_file(disk, "/d/log", b"abcdef")
    disk.open("/d/log").truncate(2)
    assert outcomes(disk, content("/d/log")) == {b"ab", b"abcdef"}


def test_what_replaces_a_cut_tail_never_mixes_with_it():
    disk = new_disk()
    durable_file(disk, "/d/log", b"abcdef")
    file = disk.open("/d/log")
    file.truncate(2)
    file.append(b"XY")
    assert outcomes(disk, content("/d/log")) == {b"abcdef", b"ab", b"abX", b"abXY"}


def test_a_rename_is_pending_until_the_directory_is_synced():
    disk = new_disk()
    durable_file(disk, "/d/old", b"x")
    disk.rename("/d/old", "/d/new")
    names = outcomes(disk, lambda after: tuple(after.list_directory("/d")))
    assert names == {("old",), ("new",)}
    disk.sync_directory("/d")
    assert outcomes(disk, lambda after: tuple(after.list_directory("/d"))) == {("new",)}


def test_a_rename_across_directories_happens_in_both_or_in_neither():
    disk = new_disk()
    disk.make_directory("/e")
    durable_file(disk, "/d/x", b"x")
    disk.rename("/d/x", "/e/x")
    places = outcomes(disk, lambda after: (after.exists("/d/x"), after.exists("/e/x")))
    assert places == {(True, False), (False, True)}
    disk.sync_directory("/e")
    places = outcomes(disk, lambda after: (after.exists("/d/x"), after.exists("/e/x")))
    assert places == {(False, True)}


def test_changes_of_a_directory_happen_in_order():
    disk = new_disk()
    for name in "abc":
        disk.open(f"/d/{name}").append(b"")
    seen = outcomes(disk, lambda after: "".join(after.list_directory("/d")))
    assert seen == {"", "a", "ab", "abc"}


def test_a_removed_file_may_come_back_whole():
    disk = new_disk()
    durable_file(disk, "/d/x", b"data")
    disk.remove("/d/x")
    assert outcomes(disk, content("/d/x")) == {None, b"data"}


def test_files_lose_bytes_independently_unless_told_to_keep_order():
    disk = new_disk()
    for name in "ab":
        durable_file(disk, f"/d/{name}", b"")
    for name in "ab":
        disk.open(f"/d/{name}").append(b"1")

    def both(after: SimDisk) -> object:
        return after.read_file("/d/a"), after.read_file("/d/b")

    assert (b"", b"1") in outcomes(disk, both)
    in_order = {both(disk.crash(fate, in_order=True)) for fate in FATES}
    assert in_order == {(b"", b""), (b"1", b""), (b"1", b"1")}


def test_pages_may_arrive_out_of_order():
    disk = new_disk()
    durable_file(disk, "/d/x", b"S")
    disk.open("/d/x").append(b"D" * 9000)
    after = [disk.crash(fate, holes=True).read_file("/d/x") or b"" for fate in FATES]
    assert all(each.startswith(b"S") for each in after)
    assert any(b"\0D" in each for each in after)


def test_a_crash_leaves_the_disk_as_it_is_and_repeats():
    disk = new_disk()
    disk.open("/d/x").append(b"abcdef")
    first = [content("/d/x")(disk.crash(fate)) for fate in FATES]
    assert first == [content("/d/x")(disk.crash(fate)) for fate in FATES]
    assert disk.read_file("/d/x") == b"abcdef"


def test_a_killed_process_loses_nothing_and_writes_nothing_more():
    disk = new_disk()
    file = disk.open("/d/x")
    file.append(b"unsynced")
    after = disk.kill()
    assert after.read_file("/d/x") == b"unsynced"
    with pytest.raises(SimCrash):
        file.append(b"more")
    assert outcomes(after, content("/d/x")) >= {None, b"unsynced"}  # the next power loss counts


@pytest.mark.parametrize("moment", list(Moment))
def test_replacing_a_file_leaves_the_old_or_the_new_wherever_it_stops(moment: Moment):
    for operation in range(1, 20):
        disk = new_disk()
        disk.replace_file("/d/x", b"old")
        disk.crash_at(disk.operations + operation, moment)
        try:
            disk.replace_file("/d/x", b"new and longer")
        except SimCrash:
            assert outcomes(disk, content("/d/x")) <= {b"old", b"new and longer"}
        else:
            assert operation == 6  # create, append, sync, rename, sync_directory
            assert outcomes(disk, content("/d/x")) == {b"new and longer"}
            return


def test_a_made_directory_is_durable():
    disk = SimDisk()
    disk.make_directory("/a/b/c")
    assert outcomes(disk, lambda after: after.exists("/a/b/c")) == {True}


@given(
    appends=st.lists(st.binary(max_size=8), max_size=12),
    synced=st.integers(0, 12),
    fate=st.integers(),
)
def test_any_crash_keeps_the_synced_prefix(appends: list[bytes], synced: int, fate: int):
    disk = new_disk()
    file = disk.open("/d/x")
    file.append(b"")
    disk.sync_directory("/d")
    floor = 0
    for number, data in enumerate(appends):
        if number == synced:
            file.sync()
            floor = file.size
        file.append(data)
    after = disk.crash(fate).read_file("/d/x")
    assert after is not None
    assert b"".join(appends).startswith(after)
    assert len(after) >= floor


# --- dying in the middle ---------------------------------------------------------------------


def test_a_machine_dies_at_the_operation_that_was_asked_for_and_stays_dead():
    disk = new_disk()
    file = disk.open("/d/x")
    file.append(b"one")
    disk.crash_at(disk.operations + 1, Moment.BEFORE)
    with pytest.raises(SimCrash, match="before operation"):
        file.append(b"two")
    for use in (lambda: file.read(0, 1), file.sync, lambda: disk.exists("/d")):
        with pytest.raises(SimCrash):
            use()
    assert disk.kill().read_file("/d/x") == b"one"


def test_death_in_the_middle_of_an_append_leaves_a_part():
    parts = set()
    for seed in FATES:
        disk = new_disk(seed)
        durable_file(disk, "/d/x", b"")
        disk.crash_at(disk.operations + 1, Moment.MIDDLE)
        with pytest.raises(SimCrash):
            disk.open("/d/x").append(b"abc")
        parts.add(disk.kill().read_file("/d/x"))
    assert parts == {b"", b"a", b"ab", b"abc"}


def test_death_after_a_sync_means_it_was_done():
    disk = new_disk()
    durable_file(disk, "/d/x", b"")
    file = disk.open("/d/x")
    file.append(b"data")
    disk.crash_at(disk.operations + 1, Moment.AFTER)
    with pytest.raises(SimCrash):
        file.sync()
    assert outcomes(disk, content("/d/x")) == {b"data"}


def test_a_crash_in_one_task_ends_the_whole_run():
    disk = new_disk()
    written: list[int] = []

    async def write(name: str) -> None:
        file = disk.open(f"/d/{name}")
        while True:
            written.append(file.append(b"x"))
            await asyncio.sleep(0.1)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(write(name))

    disk.crash_at(20)
    with pytest.raises(SimCrash):
        run(main())
    assert disk.dead
    assert len(written) < 20


def test_a_watcher_sees_every_operation():
    disk = SimDisk()
    seen: list[tuple[int, str, str]] = []
    disk.watch(lambda number, operation, path: seen.append((number, operation, path)))
    disk.make_directory("/d")
    file = disk.open("/d/x")
    file.append(b"a")
    file.sync()
    file.sync()  # nothing to do: not an operation
    assert [operation for _, operation, _ in seen] == [
        "make_directory",
        "sync_directory",
        "create",
        "append",
        "sync",
    ]
    assert [number for number, _, _ in seen] == [1, 2, 3, 4, 5]


# --- faults ----------------------------------------------------------------------------------


@pytest.mark.parametrize("partial_writes", [False, True])
def test_a_full_disk_takes_all_or_nothing(partial_writes: bool):
    disk = new_disk()
    file = disk.open("/d/x")
    file.append(b"abc")
    disk.fill_up(4, partial_writes=partial_writes)
    with pytest.raises(DiskFull):
        file.append(b"12345")
    assert file.append(b"1234") == 3
    assert disk.free_bytes("/d") == 0
    file.truncate(3)
    assert disk.free_bytes("/d") == 4
    disk.make_room()
    assert file.append(b"12345") == 3
    assert file.read(0, 100) == b"abc12345"


def test_after_a_failed_sync_nothing_saves_what_was_not_synced():
    disk = new_disk()
    durable_file(disk, "/d/x", b"safe")
    file = disk.open("/d/x")
    file.append(b"lost")
    disk.fail_sync("*/x")
    with pytest.raises(StorageFailed):
        file.sync()
    with pytest.raises(StorageFailed, match="earlier"):
        file.append(b"more")
    assert file.read(0, 100) == b"safelost"
    again = disk.open("/d/x")
    again.append(b"kept")
    again.sync()
    assert outcomes(disk, content("/d/x")) == {b"safe\0\0\0\0kept"}


def test_faults_strike_as_often_as_told():
    disk = new_disk()
    durable_file(disk, "/d/x", b"abc")
    disk.fail_read("/d/x", times=2)
    disk.fail_append("*", times=1)
    file = disk.open("/d/x")
    for _ in range(2):
        with pytest.raises(StorageFailed):
            file.read(0, 1)
    assert file.read(0, 1) == b"a"
    with pytest.raises(StorageFailed):
        disk.open("/d/x").append(b"d")
    assert disk.open("/d/x").append(b"d") == 3


def test_a_flipped_bit_is_on_the_device():
    disk = new_disk()
    durable_file(disk, "/d/x", b"abc")
    disk.flip_bit("/d/x", 1, bit=0)
    assert disk.read_file("/d/x") == b"acc"
    assert outcomes(disk, content("/d/x")) == {b"acc"}


def test_two_writers_of_one_file_are_a_mistake():
    disk = new_disk()
    first, second = disk.open("/d/x"), disk.open("/d/x")
    first.append(b"a")
    second.append(b"b")
    with pytest.raises(AssertionError, match="two write"):
        first.append(b"c")


# --- background work -------------------------------------------------------------------------


def test_a_background_sync_covers_what_was_written_before_it_began_at_least():
    covered = set()

    async def sync_while_appending(disk: SimDisk) -> None:
        file = disk.open("/d/x")
        file.append(b"1")
        disk.sync_directory("/d")
        under_way = disk.in_background(file.sync)
        for _ in range(8):
            await asyncio.sleep(0.0005)
            if not under_way.done():
                file.append(b"2")
        await under_way

    for seed in FATES:
        disk = new_disk(seed)
        run(sync_while_appending(disk), seed=seed)
        shortest = min((disk.crash(fate).read_file("/d/x") or b"" for fate in range(20)), key=len)
        covered.add(len(shortest))
    assert 0 not in covered
    assert len(covered) > 2


def test_background_work_answers_with_its_result_or_its_error():
    disk = new_disk()

    async def main() -> int:
        assert await disk.in_background(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await disk.in_background(lambda: 1 // 0)
        disk.slow_syncs(10.0, 10.0)
        file = disk.open("/d/x")
        file.append(b"x")
        started = asyncio.get_running_loop().time()
        await disk.in_background(file.sync)
        return round(asyncio.get_running_loop().time() - started)

    assert run(main()) == 10


def test_faults_that_did_not_strike_yet_can_be_forgotten():
    disk = SimDisk()
    disk.fail_sync()
    disk.forget_faults()
    disk.replace_file("/file", b"kept")
