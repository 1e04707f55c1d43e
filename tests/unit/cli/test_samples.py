from goqueue.cli.samples import Samples, add_buckets, quantile, rate

TEXT = """\
# HELP goqueue_messages_published_total Messages written.
# TYPE goqueue_messages_published_total counter
goqueue_messages_published_total{topic="a"} 5
goqueue_messages_published_total{topic="b"} 7
# HELP goqueue_took_seconds Time.
# TYPE goqueue_took_seconds histogram
goqueue_took_seconds_bucket{le="0.1",topic="a"} 50
goqueue_took_seconds_bucket{le="1",topic="a"} 100
goqueue_took_seconds_bucket{le="+Inf",topic="a"} 100
goqueue_took_seconds_count{topic="a"} 100
goqueue_took_seconds_sum{topic="a"} 20
"""


def test_samples_are_added_up_by_their_labels():
    found = Samples(TEXT)
    name = "goqueue_messages_published_total"
    assert found.total(name) == 12
    assert found.total(name, topic="b") == 7
    assert found.total(name, topic="c") == found.total("goqueue_nothing") == 0
    assert found.highest(name) == 7
    assert found.values(name, "topic") == {"a", "b"}
    assert Samples().total(name) == 0


def test_a_rate_is_of_the_time_between_and_a_counter_may_begin_again():
    assert rate(10, 30, 2) == 10
    assert rate(1000, 30, 2) == 15
    assert rate(10, 30, 0) == 0


def test_quantiles_are_estimated_as_prometheus_does():
    buckets = Samples(TEXT).buckets("goqueue_took_seconds", topic="a")
    assert quantile(0.5, {}, buckets) == 0.1
    assert quantile(0.75, {}, buckets) == 0.55
    assert quantile(0.99, buckets, buckets) is None
    assert quantile(0.99, {}, {}) is None
    twice = add_buckets([buckets, buckets])
    assert quantile(0.25, {}, twice) == 0.05
    assert quantile(0.99, {}, {1.0: 0.0, float("inf"): 4.0}) == 1.0  # it is not known better
