"""How late messages were, and how many."""

from goqueue.broker.delays.statistics import LATENESS_SECONDS, DelayCounts, Lateness


def test_lateness_is_counted_by_bounds():
    lateness = Lateness()
    lateness.observe([(1000, 0), (995, 1), (0, 2), (1500, 3)], 1000)
    assert lateness.count == 4
    assert lateness.counts[0] == 2  # in time, or before it
    assert lateness.counts[LATENESS_SECONDS.index(0.005)] == 1
    assert lateness.counts[LATENESS_SECONDS.index(1.0)] == 1
    assert round(lateness.seconds, 3) == 1.005


def test_counts_are_added():
    assert DelayCounts(1, 2, 3, 4).plus(DelayCounts(10, 20, 30, 40)) == DelayCounts(11, 22, 33, 44)
