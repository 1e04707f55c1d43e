"""Bits flip, files go missing: detected, told, isolated; never served, never skipped in silence."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.log import Log
from goqueue.model import batch as batches
from goqueue.model.batch import HEADER_BYTES, BatchHeader
from goqueue.model.errors import CorruptData, StorageFailed
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.record import Record
from goqueue.testing.sim import SimDisk
from tests.unit.log.logs import (
    ALL,
    DIRECTORY,
    NOW,
    Book,
    headers_in,
    read_all,
    settings,
    some_records,
)


def fill_book(seed: int = 0, **overrides: object) -> Book:
    """A log of several segments with batches of several records, closed and opened again."""
    chance = random.Random(seed)
    book = Book(
        SimDisk(seed, cold_reads=0.0),
        settings(segment_bytes=3000) if not overrides else settings(**overrides),
    )
    for number in range(60):
        book.append(
            [
                Record(0, NOW + number, None, chance.randbytes(20))
                for _ in range(chance.randint(1, 4))
            ]
        )
    book.close()
    book.reopen()
    return book


def flip(book: Book, path: str, position: int, bit: int) -> None:
    assert isinstance(book.disk, SimDisk)
    book.disk.flip_bit(path, position, bit)


def readable(log: Log, *, cached: bool) -> tuple[list[Record], list[range]]:
    """What a patient reader gets, and the offsets it was told it cannot have."""
    found: list[Record] = []
    refused: list[range] = []
    offset = log.start_offset
    while offset < log.high_watermark:
        try:
            chunk = None
            if cached:
                chunk = log.read_cached(offset, 500, log.high_watermark)
            chunk = chunk or log.read(offset, 500, log.high_watermark)
        except CorruptData as error:
            following = int(str(error).rsplit("continue at offset ", 1)[1])
            assert offset < following <= log.end_offset
            refused.append(range(offset, following))
            offset = Offset(following)
            continue
        found += [record for record in batches.decode_all(chunk.data) if record.offset >= offset]
        assert chunk.next_offset > offset
        offset = chunk.next_offset
    return found, refused


def assert_only_missing(book: Book, first: int, last: int) -> None:
    """Everything is served but the batches in this range, which are refused, wherever one asks."""
    expected = [record for record in book.records if not first <= record.offset <= last]
    for cached in (False, True):
        found, refused = readable(book.log, cached=cached)
        assert found == expected
        assert [(each.start, each.stop - 1) for each in refused] == [(first, last)]
    for offset in range(first, last + 1):
        with pytest.raises(CorruptData, match=f"continue at offset {last + 1}$"):
            book.log.read(Offset(offset), 1, book.log.end_offset)
    for before, after in book.batches:
        if after < first or before > last:
            chunk = book.log.read(after, 1, book.log.end_offset)
            assert next(batches.decode_all(chunk.data)).offset == before
    assert book.log.damaged == {first: last}


# --- one bit anywhere ----------------------------------------------------------------------------


@pytest.mark.parametrize("position", range(HEADER_BYTES + 6))
def test_a_flipped_bit_in_any_header_field_costs_that_batch_only(position: int):
    book = fill_book(position)
    segment = book.log.segments[1]
    headers = headers_in(segment)
    for bit in range(8):
        header = (headers[0], headers[3], headers[-1])[bit % 3]
        flip(book, segment.log.path, header.position + position, bit)
        book.reopen()
        assert_only_missing(book, header.base_offset, header.last_offset)
        flip(book, segment.log.path, header.position + position, bit)


@given(seed=st.integers(0, 100), data=st.data())
def test_a_flipped_bit_anywhere_costs_one_batch_only(seed: int, data: st.DataObject):
    book = fill_book(seed)
    segment = data.draw(st.sampled_from(book.log.segments[:-1]))
    headers = headers_in(segment)
    position = data.draw(st.integers(0, segment.size - 1))
    header = next(each for each in headers if each.position <= position < each.end)
    flip(book, segment.log.path, position, data.draw(st.integers(0, 7)))
    assert_only_missing(book, header.base_offset, header.last_offset)


@given(seed=st.integers(0, 100), data=st.data())
def test_whatever_is_overwritten_nothing_false_is_served_and_nothing_is_skipped(
    seed: int, data: st.DataObject
):
    """Sectors of nonsense or zeros, several of them, indexes included."""
    book = fill_book(
        seed, segment_bytes=6000, index_interval_bytes=data.draw(st.sampled_from((64, 1500)))
    )
    chance = random.Random(data.draw(st.integers(0, 1000)))
    assert isinstance(book.disk, SimDisk)
    for _ in range(chance.randint(1, 4)):
        segment = chance.choice(book.log.segments[:-1])
        suffix = chance.choice((".log", ".log", ".index", ".timeindex"))
        content = book.disk._device.file(segment.log.path.replace(".log", suffix)).content
        start = chance.randrange(len(content))
        length = min(chance.choice((1, 8, 512, 4096)), len(content) - start)
        noise = chance.choice((bytes(length), chance.randbytes(length)))
        content[start : start + length] = noise
    by_offset = {record.offset: record for record in book.records}
    for cached in (False, True):
        found, refused = readable(book.log, cached=cached)
        assert all(by_offset[record.offset] == record for record in found)
        told = {offset for each in refused for offset in each}
        assert told | {record.offset for record in found} == set(by_offset)
        assert not told & {record.offset for record in found}


def test_several_damaged_batches_are_told_apart():
    book = fill_book(3)
    segment = book.log.segments[1]
    headers = headers_in(segment)
    assert len(headers) > 10
    for header in (headers[2], headers[5], headers[6]):
        flip(book, segment.log.path, header.position + 70, 1)
    found, refused = readable(book.log, cached=False)
    missing = {offset for each in refused for offset in each}
    assert missing >= {headers[2].base_offset, headers[5].base_offset, headers[6].base_offset}
    assert {record.offset for record in found} == set(range(len(book.records))) - missing
    assert len(missing) <= sum(headers[at].count for at in (2, 3, 4, 5, 6))


def test_a_message_that_is_a_batch_is_not_served_as_one():
    """Damage to its batch's length must not bring it to light."""
    book = Book(
        SimDisk(cold_reads=0.0), settings(segment_bytes=1 << 20, index_interval_bytes=10_000)
    )
    book.fill(3)
    inner = batches.encode([Record(0, NOW, None, b"never appended")])
    batches.stamp(inner, batches.header_at(inner, 0), 3, 0)
    book.append([Record(0, NOW, None, bytes(inner))])
    book.fill(3)
    header = headers_in(book.log.segments[0])[3]
    flip(book, book.log.segments[0].log.path, header.position + 10, 0)
    found, refused = readable(book.log, cached=False)
    assert [record.offset for record in found] == [0, 1, 2, 4, 5, 6]
    assert refused == [range(3, 4)]


# --- files cut off or gone -----------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("which", [1, -1])
def test_a_segment_that_lost_its_durable_end_is_told(share: float, which: int):
    """A closed one, and the active one: its offsets are not given out again."""
    book = fill_book(1)
    segment = book.log.segments[which]
    headers = headers_in(segment)
    size = int(segment.size * share)
    first_missing = next(each for each in headers if each.end > size)
    assert isinstance(book.disk, SimDisk)
    del book.disk._device.file(segment.log.path).content[size:]
    book.reopen()
    found, refused = readable(book.log, cached=False)
    assert refused == [range(first_missing.base_offset, segment.next_offset)]
    assert found == [r for r in book.records if r.offset not in refused[0]]
    assert book.log.end_offset == len(book.records)
    if which == -1:
        assert any("missing" in problem for problem in book.recovery.problems)
    for _ in range(2):
        book.fill(3)
        assert readable(book.log, cached=False)[0] == [
            r for r in book.records if r.offset not in refused[0]
        ]
        book.close()
        book.reopen()


@pytest.mark.parametrize("lost", ["checkpoint", "00000000000000000000.index"])
def test_damage_in_what_was_durable_does_not_cut_the_log(lost: str):
    """Whoever verifies it all must not take one flipped bit for the end of the log."""
    book = fill_book(2)
    assert isinstance(book.disk, SimDisk)
    segment = book.log.segments[0]
    header = headers_in(segment)[2]
    flip(book, segment.log.path, header.position + 66, 3)
    book.disk.remove(f"{DIRECTORY}/{lost}")
    book.reopen()
    assert book.recovery.cut_bytes == book.recovery.removed_segments == 0
    assert_only_missing(book, header.base_offset, header.last_offset)
    if lost == "checkpoint":
        assert len(book.recovery.problems) == 1
        book.reopen()
        assert_only_missing(book, header.base_offset, header.last_offset)


def test_damage_in_the_active_segment_does_not_cut_what_was_durable():
    book = Book(SimDisk(cold_reads=0.0), settings(segment_bytes=1 << 20))
    book.fill(40)
    book.checkpoint()
    book.fill(5)
    header = headers_in(book.log.active)[7]
    flip(book, book.log.active.log.path, header.position + 66, 3)
    book.disk.remove(book.log.active.offsets.path)
    book.reopen()
    assert_only_missing(book, 7, 7)
    book.fill(5)
    assert_only_missing(book, 7, 7)


def spoil_missing(disk: SimDisk, path: str) -> None:
    disk.remove(path)


def spoil_empty(disk: SimDisk, path: str) -> None:
    del disk._device.file(path).content[:]


def spoil_short(disk: SimDisk, path: str) -> None:
    content = disk._device.file(path).content
    del content[len(content) // 2 :]


def spoil_flipped(disk: SimDisk, path: str) -> None:
    for position in range(9, len(disk._device.file(path).content), 13):
        disk.flip_bit(path, position)


def spoil_zeros(disk: SimDisk, path: str) -> None:
    content = disk._device.file(path).content
    content[20:] = bytes(len(content) - 20)


SPOILS = [spoil_missing, spoil_empty, spoil_short, spoil_flipped, spoil_zeros]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("spoil", SPOILS)
def test_indexes_of_closed_segments_are_made_anew_when_they_are_no_good(
    spoil: Callable[[SimDisk, str], None], suffix: str
):
    chance = random.Random(4)
    book = Book(SimDisk(), settings(segment_bytes=2000, index_interval_bytes=64))
    for _ in range(80):
        book.append(some_records(chance, chance.randint(1, 3)))
    book.close()
    assert isinstance(book.disk, SimDisk)
    book.reopen()
    for segment in book.log.segments[:-1]:
        spoil(book.disk, segment.log.path.replace(".log", suffix))
    book.reopen()
    book.check(indexes=False)
    for moment in range(NOW - 1000, NOW + 1001, 37):
        expected = next((r for r in book.records if r.timestamp >= moment), None)
        found = book.log.offset_for_time(Timestamp(moment), book.log.end_offset)
        assert (found and found.offset) == (expected and expected.offset)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("clean", [True, False])
def test_indexes_of_the_active_segment_are_made_anew_when_they_are_no_good(
    spoil: Callable[[SimDisk, str], None], suffix: str, clean: bool
):
    disk = SimDisk()
    book = Book(disk, settings(segment_bytes=1 << 20))
    book.fill(50, each=2)
    if clean:
        book.close()
    spoil(disk, book.log.active.log.path.replace(".log", suffix))
    book.reopen()
    book.check(indexes=False)
    book.fill(20)
    book.check(indexes=False)
    book.close()
    book.reopen()
    book.check(indexes=False)


def test_a_missing_time_index_does_not_make_a_segment_old():
    book = fill_book()
    assert isinstance(book.disk, SimDisk)
    for segment in book.log.segments[:-1]:
        book.disk.remove(segment.times.path)
    book.reopen(chosen=settings(segment_bytes=3000, retention_ms=1000))
    assert book.log.retention_start(Timestamp(NOW + 500)) == 0
    assert book.log.retention_start(Timestamp(NOW + 1030)) > 0


# --- looking by time -----------------------------------------------------------------------------


def test_a_look_by_time_says_what_it_cannot_see():
    book = fill_book()
    segment = book.log.segments[1]
    header = headers_in(segment)[4]
    flip(book, segment.log.path, header.position + 65, 1)
    with pytest.raises(CorruptData, match=f"continue at offset {header.next_offset}"):
        book.log.offset_for_time(header.max_timestamp, book.log.end_offset)
    later = book.log.offset_for_time(Timestamp(NOW + 59), book.log.end_offset)
    assert later is not None
    assert later.timestamp == NOW + 59


# --- small files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["checkpoint", "leader-epochs"])
@pytest.mark.parametrize("spoil", SPOILS[:1] + SPOILS[2:4])
def test_damaged_small_files_cost_time_and_no_records(
    name: str, spoil: Callable[[SimDisk, str], None]
):
    book = fill_book()
    assert isinstance(book.disk, SimDisk)
    spoil(book.disk, f"{DIRECTORY}/{name}")
    book.reopen()
    book.check()
    assert (book.recovery.verified_bytes > 0) == (name == "checkpoint")
    if spoil is not spoil_missing:
        assert any(name in problem for problem in book.recovery.problems)
    book.fill(3)
    book.close()
    book.reopen()
    assert book.recovery.problems == []
    book.check()


def test_a_lost_checkpoint_does_not_bring_offsets_back():
    """Nothing is left to read: only the name of the empty segment tells where it ended."""
    book = fill_book()
    end = book.log.end_offset
    book.remove_before(end)
    book.disk.remove(f"{DIRECTORY}/checkpoint")
    book.reopen()
    assert (book.log.start_offset, book.log.end_offset) == (end, end)
    assert book.append([Record(0, NOW, None, b"next")]) == end
    assert [record.value for record in read_all(book.log, ALL)] == [b"next"]


# --- behind the checkpoint ------------------------------------------------------------------------


def write_after_checkpoint(seed: int = 0, **overrides: object) -> Book:
    """A process was killed: some batches are in the checkpoint, more were synced behind it."""
    chance = random.Random(seed)
    disk = SimDisk(seed, cold_reads=0.0)
    book = Book(disk, settings(**{"segment_bytes": 3000, **overrides}))
    for number in range(60):
        book.append(
            [
                Record(0, NOW + number, None, chance.randbytes(20))
                for _ in range(chance.randint(1, 4))
            ]
        )
        if number == 10:
            book.checkpoint()
            book.checkpointed = book.log.end_offset
    return book


def batches_behind_checkpoint(book: Book) -> list[tuple[str, BatchHeader]]:
    return [
        (segment.log.path, header)
        for segment in book.log.segments
        for header in headers_in(segment)
        if header.base_offset >= book.checkpointed
    ]


def reopen_killed(book: Book) -> None:
    assert isinstance(book.disk, SimDisk)
    book.reopen(book.disk.kill())


@pytest.mark.parametrize("position", [*range(HEADER_BYTES), 70])
def test_damage_behind_the_checkpoint_costs_that_batch_only(position: int):
    """What was synced was acknowledged: sound batches behind a damaged one are kept."""
    count = len(batches_behind_checkpoint(write_after_checkpoint(position)))
    for which in (0, 7 + position % 20, count - 2, count - 1):
        for bit in (0, 6, 7):
            book = write_after_checkpoint(position)
            path, header = batches_behind_checkpoint(book)[which]
            flip(book, path, header.position + position, bit)
            reopen_killed(book)
            assert book.recovery.cut_bytes == 0
            assert book.log.end_offset == len(book.records)
            if position in range(12, 16) and which == count - 1:
                continue  # the epoch of the last batch: nothing tells that no leader had it
            assert_only_missing(book, header.base_offset, header.last_offset)
            book.fill(3)
            assert_only_missing(book, header.base_offset, header.last_offset)
            book.close()
            book.reopen()
            assert_only_missing(book, header.base_offset, header.last_offset)


@given(seed=st.integers(0, 100), data=st.data())
def test_a_torn_end_is_cut_and_damage_before_it_is_not(seed: int, data: st.DataObject):
    book = write_after_checkpoint(seed)
    acked = len(book.records)
    for _ in range(data.draw(st.integers(0, 12))):
        book.append([Record(0, NOW, None, b"not synced")], sync=False)
    behind = [each for each in batches_behind_checkpoint(book) if each[1].base_offset < acked]
    torn = data.draw(st.binary(max_size=90))
    if torn:
        book.log.active.log.append(torn)
    path, header = data.draw(st.sampled_from(behind))
    inside = data.draw(st.integers(16, header.size - 1))
    flip(book, path, header.position + inside, data.draw(st.integers(0, 7)))
    reopen_killed(book)
    assert book.recovery.cut_bytes == len(torn)
    assert_only_missing(book, header.base_offset, header.last_offset)


@given(seed=st.integers(0, 200), data=st.data())
def test_power_loss_leaves_exactly_a_prefix_with_everything_synced(seed: int, data: st.DataObject):
    """Holes in what was not synced are no damage: what lies behind them goes."""
    chance = random.Random(seed)
    disk = SimDisk(seed, cold_reads=0.0)
    book = Book(disk, settings(segment_bytes=chance.choice((1500, 20_000))))
    synced = 0
    for _ in range(chance.randint(1, 60)):
        book.append(some_records(chance, chance.randint(1, 3)), sync=chance.random() < 0.4)
        synced = book.log.synced_offset
        if chance.random() < 0.1:
            book.checkpoint()
            synced = book.log.synced_offset
    fate = data.draw(st.integers(0, 1000))
    book.reopen(disk.crash(fate, holes=chance.random() < 0.7))
    assert book.log.end_offset >= synced
    assert not any("damaged" in problem for problem in book.recovery.problems)
    book.records = book.records[: book.log.end_offset]
    book.check()


def test_a_batch_inside_a_message_is_not_served_when_its_batch_is_damaged_behind_the_checkpoint():
    for bit in range(8):
        book = Book(SimDisk(cold_reads=0.0), settings(segment_bytes=1 << 20))
        book.fill(3)
        book.checkpoint()
        inner = b""
        for offset in (4, 5, 6):
            each = batches.encode([Record(0, NOW, None, b"never appended")])
            batches.stamp(each, batches.header_at(each, 0), offset, 0)
            inner += each
        book.append([Record(0, NOW, None, inner)])
        book.fill(3)
        header = headers_in(book.log.active)[3]
        flip(book, book.log.active.log.path, header.position + 10, bit)
        reopen_killed(book)
        assert_only_missing(book, 3, 3)


@pytest.mark.parametrize("spoil", ["missing", "flipped", "short"])
def test_without_the_synced_mark_a_log_opens_as_far_as_it_is_sound(spoil: str):
    book = write_after_checkpoint(5)
    path = f"{DIRECTORY}/synced"
    assert isinstance(book.disk, SimDisk)
    if spoil == "missing":
        book.disk.remove(path)
    elif spoil == "flipped":
        book.disk.flip_bit(path, 9)
    else:
        book.disk.open(path).truncate(7)
    reopen_killed(book)
    book.check()


def test_what_a_failed_sync_left_in_memory_is_durable_before_it_is_served():
    """The kernel may have dropped it though it still shows: the next process writes it again."""
    for fate in range(20):
        disk = SimDisk(fate, cold_reads=0.0)
        book = Book(disk, settings(segment_bytes=2000))
        book.fill(5)
        disk.fail_sync("*.log")
        book.append([Record(0, NOW, None, b"in doubt")], sync=False)
        with pytest.raises(StorageFailed):
            book.sync()
        killed = disk.kill()
        book.reopen(killed)
        assert book.log.high_watermark == 6
        book.fill(2)
        book.reopen(killed.crash(fate, holes=fate % 2 == 0))
        book.check()
