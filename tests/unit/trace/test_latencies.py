"""What a message took, of the events of its journey."""

from goqueue.trace.events import Space, Step
from goqueue.trace.histograms import Histogram, HistogramTable
from goqueue.trace.journeys import FIRST_COMMIT
from goqueue.trace.latencies import PARTITIONS_MAX, Latencies
from tests.unit.trace.trace_events import ORDERS, event

MS = 1_000
GROUP = ("orders", "g")
READER = {"client": "app", "address": "10.0.0.1:4000"}


def seen(histogram: Histogram) -> tuple[int, float]:
    """How many, and how long in all, in milliseconds."""
    return sum(histogram.counts), round(histogram.seconds * 1000, 3)


def of(table: HistogramTable, *key: str) -> tuple[int, float]:
    return seen(table.table[key]) if key in table.table else (0, 0)


def published(latencies: Latencies, at_ms: int, first: int, last: int, took_ms: int = 2) -> None:
    latencies.note(event(at_ms * MS, Step.PUBLISHED, first, last, duration_us=took_ms * MS))


def test_a_queue_group_s_steps_are_timed():
    latencies = Latencies()
    published(latencies, 100, 0, 9)  # persisted at 102
    latencies.note(event(112 * MS, Step.FETCHED, 0, 4, group="g", attempt=1))
    latencies.note(event(142 * MS, Step.ACKED, 0, 3, group="g"))
    assert of(latencies.publish, "orders") == (10, 20)
    assert of(latencies.first_delivery, *GROUP) == (5, 50)
    assert of(latencies.ack, *GROUP) == (4, 120)
    assert of(latencies.end_to_end, *GROUP) == (4, 168)


def test_a_redelivery_is_no_first_delivery_and_its_ack_counts_from_it():
    latencies = Latencies()
    published(latencies, 100, 0, 9)
    latencies.note(event(110 * MS, Step.FETCHED, 0, 9, group="g", attempt=1))
    latencies.note(event(200 * MS, Step.FETCHED, 4, 4, group="g", attempt=2))
    latencies.note(event(205 * MS, Step.ACKED, 4, 4, group="g"))
    assert of(latencies.first_delivery, *GROUP) == (10, 80)
    assert of(latencies.ack, *GROUP) == (1, 5)
    assert of(latencies.end_to_end, *GROUP) == (1, 105)


def test_a_kafka_client_has_the_group_of_its_commits():
    latencies = Latencies()
    published(latencies, 100, 0, 9)
    latencies.note(event(103 * MS, Step.FETCHED, 0, 9, **READER))
    latencies.note(event(104 * MS, Step.ACKED, 0, 9, group="g", detail=FIRST_COMMIT, **READER))
    assert of(latencies.first_delivery, "orders", "") == (10, 10)  # it had committed nothing
    assert of(latencies.ack, *GROUP) == (10, 10)
    assert of(latencies.end_to_end, *GROUP) == (10, 40)
    published(latencies, 200, 10, 10)
    latencies.note(event(212 * MS, Step.FETCHED, 10, 10, **READER))
    latencies.note(event(213 * MS, Step.FETCHED, 5, 10, **READER))  # read again
    assert of(latencies.first_delivery, *GROUP) == (1, 10)


def test_a_client_of_two_groups_has_none():
    latencies = Latencies()
    published(latencies, 100, 0, 1)
    latencies.note(event(103 * MS, Step.FETCHED, 0, 0, **READER))
    for group in ("g", "h"):
        latencies.note(event(104 * MS, Step.ACKED, 0, 0, group=group, **READER))
    latencies.note(event(105 * MS, Step.FETCHED, 1, 1, **READER))
    assert of(latencies.first_delivery, "orders", "") == (2, 4)


def test_a_first_commit_says_nothing_of_what_was_never_read():
    latencies = Latencies()
    published(latencies, 100, 0, 99)
    latencies.note(event(103 * MS, Step.FETCHED, 90, 99, **READER))
    latencies.note(event(104 * MS, Step.ACKED, 0, 99, group="g", detail=FIRST_COMMIT, **READER))
    assert of(latencies.end_to_end, *GROUP) == (10, 40)


def test_a_publish_that_is_told_of_in_two_parts_counts_once():
    latencies = Latencies()
    first = event(100 * MS, Step.PUBLISHED, 0, 4)
    latencies.note(first)
    assert of(latencies.publish, "orders") == (0, 0)
    latencies.note(event(103 * MS, Step.PUBLISH_PERSISTED, 0, 4, duration_us=3 * MS))
    first.duration_us = 3 * MS
    latencies.note(first)
    assert of(latencies.publish, "orders") == (5, 15)
    assert latencies.published_us(ORDERS, 0, 2) == 103 * MS


def test_what_the_broker_moved_begins_in_the_topic():
    latencies = Latencies()
    latencies.note(event(100 * MS, Step.PUBLISHED, 0, 0, duration_us=MS, space=Space.DELAYS))
    latencies.note(event(500 * MS, Step.PUBLISH_PERSISTED, 0, 0))
    latencies.note(event(505 * MS, Step.FETCHED, 0, 0, group="g", attempt=1))
    assert of(latencies.publish, "orders") == (1, 1)
    assert of(latencies.first_delivery, *GROUP) == (1, 5)


def test_offsets_of_another_leader_are_other_messages():
    latencies = Latencies()
    published(latencies, 100, 0, 4)
    latencies.note(event(150 * MS, Step.LEADER_CHANGED, 0, 2**40))
    assert latencies.published_us(ORDERS, 0, 2) is None
    published(latencies, 200, 3, 3)
    assert of(latencies.publish, "orders") == (6, 12)


def test_an_example_has_the_trace_id_that_its_message_brought():
    latencies = Latencies()
    latencies.note(event(100 * MS, Step.TRACE_LINKED, 0, 0, detail="aa-bb"))
    published(latencies, 100, 0, 0)
    (histogram,) = latencies.publish.table.values()
    (example,) = [each for each in histogram.examples if each is not None]
    assert (example.trace_id, example.place.offset) == ("aa", 0)


def test_memory_is_bounded_by_the_number_of_partitions():
    latencies = Latencies()
    for partition in range(PARTITIONS_MAX + 5):
        latencies.note(event(1, Step.PUBLISHED, 0, 0, duration_us=1, partition=partition))
    assert latencies.published_us(ORDERS, 0, 0) is None
    assert latencies.published_us(ORDERS, 5, 0) == 2
    assert latencies.topics == {"orders"}
    latencies.forget_topics({"orders"})
    assert latencies.topics == set()
