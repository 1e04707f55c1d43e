from hypothesis import given
from hypothesis import strategies as st

from goqueue.trace.offset_runs import RUNS_MAX, OffsetRuns, Run


def of(*runs: Run) -> OffsetRuns:
    found = OffsetRuns()
    for run in runs:
        found.add(run)
    return found


def test_offsets_have_the_times_of_their_run():
    runs = of(Run(0, 9, 100, 150), Run(10, 10, 200, 250), Run(20, 29, 300, 350))
    assert list(runs.find(5, 24)) == [
        Run(5, 9, 100, 150),
        Run(10, 10, 200, 250),
        Run(20, 24, 300, 350),
    ]
    assert list(runs.find(11, 19)) == []
    assert list(runs.find(30, 99)) == []
    assert runs.next_offset == 30


def test_runs_may_come_in_any_order_and_a_redelivery_counts():
    runs = of(Run(50, 59, 2, 2), Run(0, 9, 3, 3), Run(4, 4, 7, 7))
    assert list(runs.find(4, 4)) == [Run(4, 4, 7, 7)]
    assert list(runs.find(5, 6)) == [Run(5, 6, 3, 3)]
    assert list(runs.find(50, 50)) == [Run(50, 50, 2, 2)]
    runs.add(Run(4, 4, 8, 8))
    assert list(runs.find(4, 4)) == [Run(4, 4, 8, 8)]


def test_what_is_cut_is_forgotten():
    runs = of(Run(0, 9, 1, 1), Run(10, 19, 2, 2), Run(20, 29, 3, 3))
    runs.cut(5, 22)
    assert list(runs.find(0, 99)) == [Run(0, 4, 1, 1), Run(23, 29, 3, 3)]
    runs.cut(0, 99)
    assert len(runs) == 0


def test_a_long_backlog_is_kept_coarsely_in_bounded_memory():
    runs = OffsetRuns()
    for offset in range(100_000):
        runs.add(Run(offset, offset, offset, offset))
    assert len(runs) <= RUNS_MAX
    assert list(runs.find(99_999, 99_999)) == [Run(99_999, 99_999, 99_999, 99_999)]
    for offset in range(0, 100_000, 997):
        (found,) = runs.find(offset, offset)
        assert found.done_us <= offset
    (found,) = runs.find(99_000, 99_000)
    assert 99_000 - found.done_us < 1_000  # what is near is nearly exact


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 40)), max_size=60))
def test_every_offset_that_was_added_last_is_found(given_runs: list[tuple[int, int]]):
    runs, next_offset = OffsetRuns(), 0
    expected: dict[int, int] = {}
    for number, (gap, length) in enumerate(given_runs):
        first = next_offset + gap
        next_offset = first + length
        runs.add(Run(first, next_offset - 1, number, number))
        expected |= dict.fromkeys(range(first, next_offset), number)
    found = {
        offset: run.done_us
        for run in runs.find(0, next_offset)
        for offset in range(run.first, run.last + 1)
    }
    assert found == expected
