import itertools

from hypothesis import given
from hypothesis import strategies as st

from goqueue.queue.ranges import RangeSet, each_offset, ranges_of, without_ranges

SPANS = st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda span: (span[0], sum(span)))


@given(st.sets(st.integers(0, 100)))
def test_offsets_survive_being_ranges(offsets):
    ranges = ranges_of(sorted(offsets))
    assert list(each_offset(ranges)) == sorted(offsets)
    assert all(left[1] + 1 < right[0] for left, right in itertools.pairwise(ranges))


@given(st.lists(SPANS), st.integers(0, 70), st.integers(0, 70))
def test_a_range_set_is_a_set(spans, floor, asked):
    ours, plain = RangeSet(), set[int]()
    for first, last in spans:
        ours.add(first, last)
        plain |= set(range(first, last + 1))
    assert ours.ranges == ranges_of(sorted(plain))
    assert (asked in ours) == (asked in plain)
    after = asked
    while after in plain:
        after += 1
    assert ours.after(asked) == after
    assert ours.count(floor, asked) == len([o for o in plain if floor <= o < asked])
    ours.forget_below(floor)
    assert set(each_offset(ours.ranges)) == {offset for offset in plain if offset >= floor}
    ours.forget_from(asked)
    assert set(each_offset(ours.ranges)) == {each for each in plain if floor <= each < asked}


OFFSETS = st.sets(st.integers(0, 40))


@given(OFFSETS, OFFSETS)
def test_what_is_left_without_others_is_the_difference_of_the_sets(some, others):
    found = without_ranges(ranges_of(sorted(some)), ranges_of(sorted(others)))
    assert found == ranges_of(sorted(some - others))
