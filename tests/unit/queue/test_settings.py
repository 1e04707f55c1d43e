"""Settings of a queue group: their ranges, the topic's share in them, and the backoff."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.settings import TopicSettings
from goqueue.queue import InvalidQueueSetting, QueueSettings
from goqueue.queue.settings import _RANGES


def change(**values: object) -> QueueSettings:
    return msgspec.structs.replace(QueueSettings(), **values)


def test_every_number_has_a_range():
    numbers = {
        each.name
        for each in msgspec.structs.fields(QueueSettings)
        if isinstance(each.default, int | float)
    }
    assert numbers == _RANGES.keys()


@pytest.mark.parametrize("name", _RANGES)
def test_both_ends_of_a_range_are_allowed_and_nothing_beyond(name: str):
    low, high = _RANGES[name]
    for value in (low, high, getattr(QueueSettings(), name)):
        change(**{name: value}).check()
    for value in (low - 1, high + 1):
        with pytest.raises(InvalidQueueSetting, match=f"{name}={value}: must be {low} to {high}"):
            change(**{name: value}).check()


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1,) * 6, (1, 1, 0, 1, 1), (1_000_001,) * 5])
def test_each_priority_needs_a_weight(weights: tuple[int, ...]):
    with pytest.raises(InvalidQueueSetting, match="weights="):
        change(weights=weights).check()


def test_the_least_and_the_greatest_weight_are_allowed():
    change(weights=(1, 1, 1, 1, 1_000_000)).check()


def test_a_refusal_names_all_that_is_wrong():
    with pytest.raises(InvalidQueueSetting, match=r"max_failures=0.*; key_window=0.*; weights="):
        change(max_failures=0, key_window=0, weights=()).check()


@pytest.mark.parametrize(
    ("ttl_ms", "topic_ttl_ms", "expected"),
    [(0, -1, 0), (0, 500, 500), (200, 500, 200), (200, -1, 200)],
)
def test_the_topics_time_to_live_stands_in_for_the_groups(
    ttl_ms: int, topic_ttl_ms: int, expected: int
):
    found = change(ttl_ms=ttl_ms).within(TopicSettings(goqueue_ttl_ms=topic_ttl_ms))
    assert found.ttl_ms == expected


@pytest.mark.parametrize(
    ("own", "expected"), [("topic", "drop"), ("dead_letter", "dead_letter"), ("drop", "drop")]
)
def test_the_topic_says_what_happens_to_expired_messages_unless_the_group_does(
    own: str, expected: str
):
    found = change(expired=own, key_window=7).within(TopicSettings(goqueue_expired="drop"))
    assert (found.expired, found.key_window) == (expected, 7)


def test_the_backoff_grows_by_its_factor_up_to_its_bound():
    settings = change(
        backoff_base_ms=100, backoff_factor=3.0, backoff_max_ms=2_000, backoff_jitter=0
    )
    waits = [settings.backoff_ms(failures, 0.5) for failures in (1, 2, 3, 4, 5)]
    assert waits == [100, 300, 900, 2_000, 2_000]


@given(
    failures=st.integers(1, 10**6),
    chance=st.floats(0, 1, exclude_max=True),
    jitter=st.floats(0, 1),
    factor=st.floats(1, 100),
)
def test_a_backoff_stays_within_its_jitter(
    failures: int, chance: float, jitter: float, factor: float
):
    plain = change(backoff_jitter=0, backoff_factor=factor).backoff_ms(failures, chance)
    wait = change(backoff_jitter=jitter, backoff_factor=factor).backoff_ms(failures, chance)
    assert plain * (1 - jitter) - 1 <= wait <= plain * (1 + jitter) + 1
    assert 0 <= wait <= 2 * 60_000


def test_jitter_goes_both_ways():
    settings = change(backoff_base_ms=1_000, backoff_jitter=0.2)
    assert [settings.backoff_ms(1, chance) for chance in (0, 0.5, 0.75)] == [800, 1_000, 1_100]
