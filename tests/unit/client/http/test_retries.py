"""A request is repeated only when that cannot do the same thing twice."""

import pytest

from goqueue.client.errors import (
    ClientError,
    NoAnswer,
    NoFreeConnection,
    Overloaded,
    ServerFailed,
    ServerUnreachable,
    TopicNotFound,
)
from goqueue.client.http.retries import FOLLOWING, Retries, delay_before_retry


def overloaded(retry_after_seconds: float | None = None) -> Overloaded:
    return Overloaded(
        "busy", code="overloaded", status=503, retry_after_seconds=retry_after_seconds
    )


def delay(error: ClientError, *, is_repeatable: bool, repetitions: int = 0) -> float | None:
    return delay_before_retry(
        error,
        repetitions=repetitions,
        is_repeatable=is_repeatable,
        retries=Retries(3),
        left_seconds=60.0,
        jitter=lambda _, high: high,
    )


@pytest.mark.parametrize(
    ("error", "is_repeatable", "expected"),
    [
        pytest.param(ServerUnreachable(""), False, 0.1, id="nothing-was-sent"),
        pytest.param(NoFreeConnection(""), True, None, id="the-client-itself-is-busy"),
        pytest.param(NoAnswer(""), False, None, id="a-publish-may-have-happened"),
        pytest.param(NoAnswer(""), True, 0.1, id="a-read-may-be-repeated"),
        pytest.param(overloaded(2.0), False, 2.0, id="the-server-says-when"),
        pytest.param(overloaded(60.0), True, None, id="the-server-says-much-later"),
        pytest.param(overloaded(), False, None, id="the-server-does-not-say-when"),
        pytest.param(overloaded(), True, 0.1, id="a-read-when-busy"),
        pytest.param(TopicNotFound("", code="", status=404), True, None, id="a-clear-no"),
        pytest.param(ServerFailed("", code="", status=500), True, None, id="a-failure"),
    ],
)
def test_what_is_sent_again(error: ClientError, is_repeatable: bool, expected: float | None):
    assert delay(error, is_repeatable=is_repeatable) == expected


def test_waits_double_up_to_a_bound_and_end():
    waits = [delay(NoAnswer(""), is_repeatable=True, repetitions=n) for n in range(4)]
    assert waits == [0.1, 0.2, 0.4, None]
    many = Retries(100)
    far = delay_before_retry(
        NoAnswer(""),
        repetitions=50,
        is_repeatable=True,
        retries=many,
        left_seconds=60.0,
        jitter=lambda _, high: high,
    )
    assert far == many.delay_seconds_max


@pytest.mark.parametrize(("left_seconds", "expected"), [(0.2, 0.1), (0.1, None), (-1.0, None)])
def test_tries_together_keep_the_time_out(left_seconds: float, expected: float | None):
    found = delay_before_retry(
        ServerUnreachable(""),
        repetitions=0,
        is_repeatable=True,
        retries=Retries(3),
        left_seconds=left_seconds,
        jitter=lambda _, high: high,
    )
    assert found == expected


def test_who_follows_a_topic_goes_on_beyond_the_time_out():
    found = delay_before_retry(
        ServerUnreachable(""),
        repetitions=9,
        is_repeatable=True,
        retries=FOLLOWING,
        left_seconds=-30.0,
        jitter=lambda _, high: high,
    )
    assert found == FOLLOWING.delay_seconds_max
