"""Which quota counts: Kafka's order, for each quota apart."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.model.errors import InvalidRequest
from goqueue.quotas import ANY, PUBLISH_BYTES, REQUESTS, QuotaEntity, check_rate, find_rate

ORDER = [
    QuotaEntity("u", "c"),
    QuotaEntity("u", ANY),
    QuotaEntity("u"),
    QuotaEntity(ANY, "c"),
    QuotaEntity(ANY, ANY),
    QuotaEntity(ANY),
    QuotaEntity(None, "c"),
    QuotaEntity(None, ANY),
]
BUCKETS = [("u", "c", None), ("u", "c", None), ("u", None, None)] * 2 + [(None, "c", None)] * 2


@given(st.sets(st.integers(0, len(ORDER) - 1)))
def test_the_most_specific_counts(places: set[int]):
    table = {ORDER[each]: {PUBLISH_BYTES: float(each + 1)} for each in places}
    found = find_rate(table, PUBLISH_BYTES, "u", "c")
    assert found == ((BUCKETS[min(places)], min(places) + 1.0) if places else None)


def test_each_quota_apart():
    table = {ORDER[0]: {REQUESTS: 5.0}, ORDER[7]: {PUBLISH_BYTES: 6.0}}
    assert find_rate(table, REQUESTS, "u", "c") == (("u", "c", None), 5.0)
    assert find_rate(table, PUBLISH_BYTES, "u", "c") == ((None, "c", None), 6.0)


def test_nobody_has_no_quota_of_users():
    table = {each: {REQUESTS: 1.0} for each in ORDER[:6]}
    assert find_rate(table, REQUESTS, None, "c") is None


@pytest.mark.parametrize(
    "entity",
    [QuotaEntity(), QuotaEntity(user="u", ip="::1"), QuotaEntity(client_id="x" * 250)],
)
def test_whom_no_quota_is_for(entity: QuotaEntity):
    with pytest.raises(InvalidRequest):
        entity.check()


@pytest.mark.parametrize(
    ("key", "rate"),
    [
        *itertools.product([REQUESTS], [0, -1, float("nan"), float("inf"), 2.0**54]),
        ("request_percentage", 5),
        ("connection_creation_rate", 5),
        ("x", 5),
    ],
)
def test_what_is_no_quota(key: str, rate: float):
    with pytest.raises(InvalidRequest, match=key):
        check_rate(QuotaEntity("u"), key, rate)


def test_names_for_people():
    assert str(QuotaEntity("u", ANY)) == "user 'u', client-id <default>"
