from goqueue.trace.histograms import BOUNDS_SECONDS, Histogram, HistogramTable
from tests.unit.trace.trace_events import at


def test_many_messages_are_one_observation():
    histogram = Histogram()
    histogram.observe(1_000, 10, 5, at(3), "")
    histogram.observe(1_001, 5, 6, at(4), "ab")
    histogram.observe(10**12, 1, 7, at(5), "")
    histogram.observe(-4, 1, 8, at(6), "")  # clocks differ
    assert histogram.counts[0] == 11
    assert histogram.counts[1] == 5
    assert histogram.counts[-1] == 1
    assert len(histogram.counts) == len(BOUNDS_SECONDS) + 1
    assert round(histogram.seconds - 1e6, 6) == 0.015005
    example = histogram.examples[1]
    assert example is not None
    assert (example.place.offset, example.trace_id, example.seconds) == (4, "ab", 0.001001)


def test_what_has_no_room_shares_a_histogram():
    table = HistogramTable(("(others)",), 2)
    for topic in ("a", "b", "c", "d", "a"):
        table.of((topic,)).observe(1, 1, 1, at(0), "")
    assert {key[0]: sum(each.counts) for key, each in table.table.items()} == {
        "a": 2,
        "b": 1,
        "(others)": 2,
    }
    table.forget_topics({"a"})
    table.of(("c",)).observe(1, 1, 1, at(0), "")
    assert set(table.table) == {("b",), ("(others)",)}
