"""A topic as one stream: the order of its messages, and cursors that go on from there."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.messages import merged_reader
from goqueue.broker.messages.merged_reader import (
    CURSOR_BYTES_MAX,
    Cursor,
    MergedPage,
    MergedReader,
    Position,
    cursor_from_text,
)
from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.model.errors import InvalidRequest, OffsetOutOfRange, PolicyViolation
from goqueue.model.ids import Offset, Timestamp
from tests.unit.broker.queue_world import Bench, play

OFFSETS = st.lists(st.integers(min_value=0, max_value=2**63 - 1), max_size=20)


@settings(max_examples=25)
@given(st.uuids(), OFFSETS, st.none() | OFFSETS)
def test_a_cursor_comes_back_from_its_text(topic_id: UUID, offsets: list[int], ends: list[int]):
    cursor = Cursor(topic_id, offsets, ends)
    assert cursor_from_text(cursor.to_text()) == cursor


@settings(max_examples=25)
@given(st.text(max_size=40))
def test_what_is_no_cursor_is_refused(text: str):
    with pytest.raises(InvalidRequest, match="cursor"):
        cursor_from_text(text)


def test_a_cursor_is_bounded_and_its_offsets_are_not_negative():
    with pytest.raises(InvalidRequest, match="longer"):
        cursor_from_text("A" * (CURSOR_BYTES_MAX + 1))
    for cursor in (Cursor(UUID(int=1), [0, -1]), Cursor(UUID(int=1), [0], [-1])):
        with pytest.raises(InvalidRequest, match="negative"):
            cursor_from_text(cursor.to_text())


# --- reading --------------------------------------------------------------------------------------


class Reading:
    """Reads `jobs` on a bench."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._reader = MergedReader(bench.broker, bench.messages)

    async def publish(self, partition: int, *times: int) -> None:
        """Messages whose values say when they are of."""
        for at in times:
            message = OutgoingMessage(b"%d" % at, partition=partition, timestamp=at)
            await self._bench.publish("jobs", message)

    async def start(
        self,
        position: Position = "earliest",
        *,
        from_time: int | None = None,
        to_time: int | None = None,
    ) -> Cursor:
        times = [None if each is None else Timestamp(each) for each in (from_time, to_time)]
        return await self._reader.start(
            "jobs", from_time=times[0], to_time=times[1], position=position
        )

    async def read(
        self, cursor: Cursor, *, limit: int = 100, bytes_max: int = 100_000
    ) -> MergedPage:
        return await self._reader.read("jobs", cursor, limit=limit, bytes_max=bytes_max)


def times_of(page: MergedPage) -> list[int]:
    return [int(record.value or b"") for _, record in page.messages]


def read_jobs(story: Callable[[Reading, Bench], Awaitable[None]], partitions: int = 2) -> None:
    async def scenario(bench: Bench) -> None:
        await story(Reading(bench), bench)

    play(scenario, partitions=partitions)


def test_partitions_are_merged_by_time_and_keep_their_own_order():
    async def story(reading: Reading, _: Bench) -> None:
        await reading.publish(0, 1, 4, 2)
        await reading.publish(1, 3, 5)
        page = await reading.read(await reading.start())
        assert times_of(page) == [1, 3, 4, 2, 5]
        assert page.at_end
        assert page.cursor.offsets == [3, 2]

    read_jobs(story)


def test_pages_follow_each_other_without_a_gap_or_a_repetition():
    async def story(reading: Reading, _: Bench) -> None:
        await reading.publish(0, 1, 3, 5, 7)
        await reading.publish(1, 2, 4, 6)
        cursor, seen, pages = await reading.start(), list[int](), 0
        while True:
            page = await reading.read(cursor_from_text(cursor.to_text()), limit=2)
            seen += times_of(page)
            cursor, pages = page.cursor, pages + 1
            assert len(page.messages) <= 2
            if page.at_end:
                break
        assert seen == [1, 2, 3, 4, 5, 6, 7]
        assert pages == 4

    read_jobs(story)


def test_a_page_has_one_message_more_than_its_bytes_at_most():
    async def story(reading: Reading, _: Bench) -> None:
        await reading.publish(0, 1, 2, 3)
        assert times_of(await reading.read(await reading.start(), bytes_max=1)) == [1]
        assert times_of(await reading.read(await reading.start(), bytes_max=2)) == [1, 2]

    read_jobs(story)


def test_a_range_of_times_ends_before_its_end_and_stays_over():
    async def story(reading: Reading, _: Bench) -> None:
        await reading.publish(0, 1, 3, 5)
        await reading.publish(1, 2, 4)
        cursor = await reading.start(from_time=2, to_time=4)
        page = await reading.read(cursor)
        assert times_of(page) == [2, 3]
        assert page.at_end
        await reading.publish(1, 3)
        assert times_of(await reading.read(page.cursor)) == []

    read_jobs(story)


def test_a_position_is_an_end_an_offset_or_counts_back_from_the_end():
    async def story(reading: Reading, _: Bench) -> None:
        await reading.publish(0, 1, 2, 3)
        await reading.publish(1, 1)
        expected: dict[Position, list[int]] = {
            "earliest": [0, 0],
            "latest": [3, 1],
            0: [0, 0],
            2: [2, 2],
            -2: [1, 0],
        }
        for position, offsets in expected.items():
            assert (await reading.start(position)).offsets == offsets

    read_jobs(story)


def test_a_partition_that_was_added_is_read_from_its_beginning():
    async def story(reading: Reading, bench: Bench) -> None:
        await reading.publish(0, 1)
        cursor = (await reading.read(await reading.start())).cursor
        await bench.broker.add_partitions("jobs", 2)
        await reading.publish(1, 2)
        page = await reading.read(cursor)
        assert times_of(page) == [2]
        assert page.cursor.offsets == [1, 1]

    read_jobs(story, partitions=1)


def test_what_retention_removed_is_stepped_over_and_told():
    async def story(reading: Reading, bench: Bench) -> None:
        await reading.publish(0, 1, 2, 3)
        cursor = await reading.start()
        partition = await bench.broker.partition("jobs", 0)
        await partition.remove_before(Offset(2))
        page = await reading.read(cursor)
        assert times_of(page) == [3]
        assert page.cursor.offsets == [3]
        assert len(page.problems) == 1
        assert page.problems[0].endswith("continued at 2")

    read_jobs(story, partitions=1)


def test_an_offset_beyond_the_end_is_no_place_to_begin():
    async def story(reading: Reading, _: Bench) -> None:
        await reading.publish(0, 1)
        with pytest.raises(OffsetOutOfRange):
            await reading.read(await reading.start(7))

    read_jobs(story, partitions=1)


def test_a_cursor_ends_with_its_topic():
    async def story(reading: Reading, bench: Bench) -> None:
        cursor = await reading.start()
        await bench.broker.delete_topic("jobs")
        await bench.broker.create_topic("jobs", partitions=2)
        with pytest.raises(InvalidRequest, match="another topic"):
            await reading.read(cursor)

    read_jobs(story)


def test_a_topic_of_too_many_partitions_is_not_merged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merged_reader, "PARTITIONS_MAX", 1)

    async def story(reading: Reading, _: Bench) -> None:
        with pytest.raises(PolicyViolation, match="a partition at a time"):
            await reading.start()

    read_jobs(story)


def test_every_partition_is_read_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(merged_reader, "READ_AHEAD_RECORDS", 1)

    async def story(reading: Reading, _: Bench) -> None:
        await reading.publish(0, 1, 4)
        await reading.publish(1, 2, 3)
        assert times_of(await reading.read(await reading.start())) == [1, 2, 3, 4]

    read_jobs(story)
