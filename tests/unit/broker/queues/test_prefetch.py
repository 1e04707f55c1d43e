"""A prefetch buffer: budgets, lanes, and what is kept for later."""

from goqueue.broker.queues import prefetch
from goqueue.broker.queues.partition_reader import RecordBlock
from goqueue.broker.queues.prefetch import (
    HEADER_BYTES,
    RECORD_BYTES,
    Budget,
    LaneBuffer,
    PrefetchBuffer,
    record_size,
)
from goqueue.model.ids import GroupId
from goqueue.model.record import Record
from goqueue.queue.lanes import NORMAL
from tests.unit.broker.queue_world import Bench, numbered, play, with_priority


def test_the_first_message_goes_whatever_its_size():
    budget = Budget(count=10, size=5)
    assert budget.admits(100)
    budget.spend(1, 100)
    assert budget.is_spent
    assert not budget.admits(1)


def test_once_one_does_not_fit_no_other_does():
    budget = Budget(count=10, size=10)
    budget.spend(1, 4)
    assert budget.admits(6)
    assert not budget.admits(7)
    assert not budget.admits(1), "a smaller one must not overtake it"
    assert budget.is_spent


def test_a_budget_is_spent_by_count_too():
    budget = Budget(count=2, size=100)
    budget.spend(2, 2)
    assert budget.is_spent


def block(*offsets: int, next_offset: int) -> RecordBlock:
    records = [Record(offset, 0, None, b"x") for offset in offsets]
    return RecordBlock(records, next_offset=next_offset, size=len(records), is_plain=True)


def test_a_lane_counts_what_is_loaded_and_not_taken():
    lane = LaneBuffer(position=9)
    assert (lane.count, lane.next_offset(), lane.tidy()) == (0, 9, False)
    lane.blocks.extend([block(2, 3, next_offset=5), block(7, next_offset=9)])
    lane.place = 1
    assert (lane.count, lane.next_offset()) == (2, 3)
    lane.place = 2
    assert (lane.next_offset(), lane.place, len(lane.blocks)) == (7, 0, 1)
    lane.place = 1
    assert (lane.next_offset(), lane.count) == (9, 0)
    lane.reset(4)
    assert (lane.position, lane.next_offset()) == (4, 4)


def test_the_size_of_a_record_counts_its_headers():
    record = Record(0, 0, b"key", b"value", (("name", b"12"), ("empty", None)))
    assert record_size(record) == 8 + 2 * HEADER_BYTES + 6 + 5
    assert record_size(Record(0, 0, None, None)) == 0


async def buffer_of(bench: Bench) -> PrefetchBuffer:
    ((state, reader, ledger),) = await bench.queues._subscriptions.find(
        ["jobs"], GroupId("workers")
    )
    buffer = PrefetchBuffer(state, reader, ledger)
    await buffer.refresh()
    return buffer


def test_lanes_that_have_something_are_offered():
    async def scenario(bench: Bench) -> None:
        buffer = await buffer_of(bench)
        now = bench.broker.environment.clock.steady()
        assert buffer.offers(now) == set()
        await bench.publish("jobs", b"plain")
        await buffer.refresh()
        assert buffer.offers(now) == {NORMAL}
        await bench.publish("jobs", with_priority(b"urgent", "critical"))
        await buffer.refresh()
        assert len(buffer.offers(now)) == 2

    play(scenario)


def test_a_window_stays_in_the_buffer():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        buffer = await buffer_of(bench)
        for _ in range(2):
            window = await buffer.window(NORMAL, 3)
            assert [record.value for record in window] == numbered(3)
        assert await buffer.window(NORMAL, 0) == []
        assert len(await buffer.window(NORMAL, 99)) == 5

    play(scenario)


def test_what_was_passed_over_is_found_without_the_log_as_far_as_there_is_room(monkeypatch):
    monkeypatch.setattr(prefetch, "STASHED_BYTES_MAX", 2 * RECORD_BYTES + 2)

    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        buffer = await buffer_of(bench)
        kept = [Record(offset, 0, None, b"stashed") for offset in range(3)]
        for record in kept:
            buffer.stash(record, 1)
        found = await buffer.find([0, 1, 2])
        assert [found[offset].value for offset in range(3)] == [b"stashed", b"stashed", b"2"]
        buffer.unstash(0, 1)
        buffer.unstash(0, 1)
        buffer.stash(kept[2], 1)
        found = await buffer.find([0, 2])
        assert [found[offset].value for offset in (0, 2)] == [b"0", b"stashed"]

    play(scenario)


def test_a_group_that_was_moved_loads_anew():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", *numbered(5))
        buffer = await buffer_of(bench)
        assert len(await buffer.window(NORMAL, 9)) == 5
        await bench.queues.move_ack_floor("workers", "jobs", 0, 3)
        buffer.is_current()
        assert [record.value for record in await buffer.window(NORMAL, 9)] == [b"3", b"4"]

    play(scenario)


def test_turns_are_remembered_of_so_many_values(monkeypatch):
    monkeypatch.setattr(prefetch, "VALUES_MAX", 2)

    async def scenario(bench: Bench) -> None:
        buffer = await buffer_of(bench)
        assert buffer.last_turn(b"a") == 0
        buffer.note_turn(b"a")
        buffer.note_turn(None)
        assert 0 < buffer.last_turn(b"a") < buffer.last_turn(None)
        buffer.note_turn(b"b")
        assert buffer.last_turn(b"a") == 0
        assert buffer.last_turn(b"b") > 0

    play(scenario)
