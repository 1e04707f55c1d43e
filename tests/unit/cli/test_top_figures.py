from goqueue.cli.samples import Samples
from goqueue.cli.top_figures import group_figures, node_figures, topic_figures


def samples(*lines: str) -> Samples:
    return Samples("\n".join(lines) + "\n")


def test_a_node_is_shown_with_its_rates_and_what_it_needs():
    before = samples(
        'goqueue_messages_published_total{topic="a"} 10',
        "process_cpu_seconds_total 1",
    )
    after = samples(
        'goqueue_messages_published_total{topic="a"} 30',
        'goqueue_messages_published_total{topic="b"} 10',
        "process_cpu_seconds_total 2",
        "process_resident_memory_bytes 5e7",
        "goqueue_cluster_led_partitions 3",
    )
    found = node_figures(1, "active", before, after, 2.0)
    assert (found.published_per_second, found.cpu, found.memory_bytes) == (15, 0.5, 50_000_000)
    assert (found.leaders, found.loop_lag_p99_seconds) == (3, None)


def test_the_busiest_topics_come_first_and_internal_ones_never():
    after = samples(
        'goqueue_messages_published_total{topic="quiet"} 1',
        'goqueue_messages_published_total{topic="busy"} 100',
        'goqueue_messages_published_total{topic="__groups"} 900',
        'goqueue_dead_letters{topic="busy"} 4',
    )
    other = samples('goqueue_messages_published_total{topic="quiet"} 5')
    found = topic_figures({}, {1: after, 2: other}, 1.0, 10)
    assert [(each.topic, each.published_per_second) for each in found] == [
        ("busy", 100),
        ("quiet", 6),
    ]
    assert found[0].dead_letters == 4
    assert [each.topic for each in topic_figures({}, {1: after}, 1.0, 1)] == ["busy"]


def test_the_slowest_groups_come_first():
    after = samples(
        'goqueue_consumer_lag{group="a",topic="t",partition="0"} 5',
        'goqueue_consumer_lag{group="a",topic="t",partition="1"} 6',
        'goqueue_consumer_lag_seconds{group="a",topic="t"} 2',
        'goqueue_queue_ready{group="q",topic="t",priority="high"} 1',
        'goqueue_queue_in_flight{group="q",topic="t",priority="high"} 2',
        'goqueue_queue_oldest_seconds{group="q",topic="t",priority="high"} 9',
    )
    first, second = group_figures({}, {1: after}, 1.0, 10)
    assert (first.group, first.lag, first.in_flight, first.oldest_seconds) == ("q", 3, 2, 9)
    assert (second.group, second.lag, second.oldest_seconds) == ("a", 11, 2)
