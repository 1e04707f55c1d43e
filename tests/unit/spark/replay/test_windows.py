"""A replay in windows: all of it, each offset once, in order."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.spark.replay.windows import Span, windows

spans = st.dictionaries(
    st.integers(0, 3),
    st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda each: Span(*each)),
    max_size=4,
)


@given(spans, st.integers(1, 20))
def test_every_offset_is_in_one_window_and_windows_follow_each_other(given_spans, size):
    found = list(windows(given_spans, size))
    assert [each.number for each in found] == sorted({each.number for each in found})
    offsets = [
        (partition, offset)
        for window in found
        for partition, span in window.spans.items()
        for offset in range(span.start, span.end)
    ]
    expected = [
        (partition, offset)
        for partition, span in given_spans.items()
        for offset in range(span.start, span.end)
    ]
    assert sorted(offsets) == sorted(expected)
    assert len(set(offsets)) == len(offsets)
    for window in found:
        assert window.spans, "an empty window is not worth a transaction"


@given(spans, st.integers(1, 20), st.integers(-1, 60))
def test_what_is_done_is_left_out(given_spans, size, after):
    everything = list(windows(given_spans, size))
    assert list(windows(given_spans, size, after=after)) == [
        each for each in everything if each.number > after
    ]


def test_partitions_far_apart_have_windows_only_where_they_are():
    found = list(windows({0: Span(0, 10), 1: Span(10**12, 10**12 + 10)}, 100))
    assert [each.spans for each in found] == [
        {0: Span(0, 10)},
        {1: Span(10**12, 10**12 + 10)},
    ]
