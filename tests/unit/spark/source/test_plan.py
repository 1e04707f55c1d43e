"""Ranges to tasks, and how much a micro-batch takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.source.admission import admit, averages
from goqueue.spark.source.plan import OffsetRange, Sizing, plan

MEBIBYTE = 1024 * 1024


def ranges(*lengths, start=10):
    return [OffsetRange("t", index, start, start + each) for index, each in enumerate(lengths)]


lengths = st.lists(st.integers(0, 5000), max_size=12)
sizings = st.builds(
    Sizing,
    tasks_min=st.integers(1, 20),
    tasks_max=st.integers(20, 50),
    task_bytes=st.integers(100, 100_000),
    records_per_task_max=st.none() | st.integers(1, 5000),
)


@given(lengths=lengths, sizing=sizings, sizes=st.lists(st.floats(0, 5000), max_size=12))
def test_every_offset_is_in_one_task_and_in_order(lengths, sizing, sizes):
    wanted = ranges(*lengths)
    weights = {TopicPartition(TopicName("t"), index): each for index, each in enumerate(sizes)}
    tasks = plan(wanted, sizing, weights)
    assert all(task for task in tasks)
    pieces = [piece for task in tasks for piece in task]
    assert all(piece.start < piece.end for piece in pieces)
    for each in wanted:
        mine = [piece for piece in pieces if piece.where == each.where]
        covered = [offset for piece in mine for offset in (piece.start, piece.end)]
        assert covered[:1] == ([each.start] if each.length else [])
        assert covered[-1:] == ([each.end] if each.length else [])
        assert covered[1:-1:2] == covered[2:-1:2], "a gap or an overlap"


@given(lengths=lengths, sizing=sizings)
def test_limits_of_tasks_hold(lengths, sizing):
    tasks = plan(ranges(*lengths), sizing)
    total = sum(lengths)
    if sizing.records_per_task_max is not None:
        assert all(
            sum(each.length for each in task) <= sizing.records_per_task_max for task in tasks
        )
        return
    assert len(tasks) <= sizing.tasks_max
    if total >= 20 * sizing.tasks_max:
        assert len(tasks) >= sizing.tasks_min


def test_partitions_make_tasks_where_these_are_worth_their_start():
    """As with Kafka's connector, which makes one of each: what follows may cost more than reading
    does."""
    fifty_megabytes = ranges(*[42_000] * 12)  # at 100 bytes
    assert len(plan(fifty_megabytes, Sizing())) == 12
    assert len(plan(fifty_megabytes, Sizing(cores=2))) == 2
    assert len(plan(fifty_megabytes, Sizing(cores=100))) == 12
    assert len(plan(fifty_megabytes, Sizing(spreads=False))) == 1
    assert len(plan(ranges(*[10_000] * 12), Sizing())) == 3
    assert len(plan(ranges(500_000), Sizing(cores=100))) == 1


def test_small_ranges_share_one_task():
    (task,) = plan(ranges(100, 100, 100, 100), Sizing())
    assert len(task) == 4


def test_a_big_range_is_split_into_equal_parts():
    tasks = plan(
        ranges(4_000_000),
        Sizing(task_bytes=100 * MEBIBYTE),
        {TopicPartition(TopicName("t"), 0): 105},
    )
    assert len(tasks) == 5
    assert {len(task) for task in tasks} == {1}
    assert {task[0].length for task in tasks} == {800_000}


def test_partitions_are_weighed_by_the_size_of_their_records():
    weights = {TopicPartition(TopicName("t"), 0): 1000.0, TopicPartition(TopicName("t"), 1): 10.0}
    tasks = plan(ranges(10_000, 10_000), Sizing(task_bytes=MEBIBYTE), weights)
    assert len(tasks) == 10
    assert [piece.partition for piece in tasks[-1]] == [0, 1]
    assert all(piece.partition == 0 for task in tasks[:-1] for piece in task)


def test_a_cut_near_the_end_of_a_partition_moves_there():
    tasks = plan(ranges(1050, 950), Sizing(tasks_min=2))
    assert [[piece.partition for piece in task] for task in tasks] == [[0], [1]]


def test_one_task_is_one_task_even_when_most_of_it_is_one_partition():
    assert len(plan(ranges(950, 50), Sizing(tasks_max=1, task_bytes=10))) == 1


def test_nothing_is_no_task():
    assert plan([], Sizing()) == []
    assert plan(ranges(0, 0), Sizing(tasks_min=5)) == []


# --- admission ----------------------------------------------------------------------------------


def places(*offsets):
    return {TopicPartition(TopicName("t"), index): offset for index, offset in enumerate(offsets)}


@given(
    lags=st.lists(st.integers(0, 10_000), min_size=1, max_size=10),
    offsets_max=st.integers(1, 20_000),
)
def test_a_limit_is_met_to_the_offset_and_no_partition_is_passed_over_twice(lags, offsets_max):
    starts, latest = places(*[7] * len(lags)), places(*[7 + lag for lag in lags])
    ends = admit(starts, latest, offsets_max=offsets_max)
    taken = {where: ends[where] - starts[where] for where in ends}
    assert sum(taken.values()) == min(sum(lags), offsets_max)
    for where, lag in zip(ends, lags, strict=True):
        fair = lag * min(1.0, offsets_max / max(1, sum(lags)))
        assert 0 <= taken[where] <= lag
        assert abs(taken[where] - fair) <= 1


def test_bytes_are_counted_by_the_average_record():
    sizes = {TopicPartition(TopicName("t"), 0): 100.0, TopicPartition(TopicName("t"), 1): 1000.0}
    ends = admit(places(0, 0), places(1000, 1000), bytes_max=110_000, record_bytes=sizes)
    assert ends == places(100, 100)


def test_the_smaller_of_two_limits_counts_and_one_offset_is_always_taken():
    starts, latest = places(0), places(1000)
    assert admit(starts, latest, offsets_max=10, bytes_max=10**6) == places(10)
    assert admit(starts, latest, offsets_max=10**6, bytes_max=1000) == places(10)
    assert admit(starts, latest, bytes_max=1) == places(1)
    assert admit(starts, latest) == latest


def test_averages_leave_out_what_is_empty_or_unknown():
    assert averages(places(1000, 0, 500), places(10, 10, 0)) == {
        TopicPartition(TopicName("t"), 0): 100.0
    }
    assert averages({}, places(10)) == {}


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_a_task_for_each_of_so_many_records(count):
    tasks = plan(ranges(500, 500), Sizing(records_per_task_max=count))
    assert sum(piece.length for task in tasks for piece in task) == 1000
    assert len(tasks) == -(-1000 // count)
