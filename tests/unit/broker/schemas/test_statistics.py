"""Counts of validations stay bounded, and durations fall into buckets."""

from goqueue.broker.schemas import statistics
from goqueue.broker.schemas.statistics import VALIDATION_SECONDS, ValidationCounts


def test_records_and_durations_are_counted_by_topic_and_mode():
    counts = ValidationCounts()
    counts.note("t", records=5, invalid=2, is_full=True, seconds=0.0003)
    counts.note("t", records=1, invalid=0, is_full=False, seconds=5.0)
    assert counts.valid == {"t": 4}
    assert counts.invalid == {"t": 2}
    full, ids = counts.times["full"], counts.times["id"]
    assert full.counts[VALIDATION_SECONDS.index(0.0005)] == sum(full.counts) == 1
    assert ids.counts[-1] == sum(ids.counts) == 1
    assert ids.seconds == 5.0


def test_topics_beyond_a_bound_share_a_name(monkeypatch):
    monkeypatch.setattr(statistics, "TOPICS_COUNTED_MAX", 2)
    counts = ValidationCounts()
    for topic in ("a", "b", "c", "d", "a"):
        counts.note(topic, records=1, invalid=0, is_full=False, seconds=0.0)
    assert counts.valid == {"a": 2, "b": 1, "": 2}
