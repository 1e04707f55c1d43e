"""Which events are written in a flood, which are found, and what is kept out of them."""

import pytest

from goqueue.model.ids import Instant
from goqueue.security import AuditEvent, AuditFilter, AuditLimit, claimed_principal, shorten
from goqueue.security.audit import HOSTS_MAX

SECOND = 1_000_000_000


def test_a_flood_from_one_address_leaves_room_for_the_others_and_is_counted() -> None:
    limit = AuditLimit(per_second=100, per_host_second=10)
    now = Instant(5 * SECOND)
    written = sum(limit.allows("authentication", "10.0.0.1", now) for _ in range(5_000))
    assert written == 100  # ten seconds' worth at once
    assert limit.allows("authorization", "10.0.0.2", now)
    assert limit.take_left_out() == {"authentication": 4_900}
    assert limit.take_left_out() == {}
    later = Instant(now + SECOND)
    assert sum(limit.allows("authentication", "10.0.0.1", later) for _ in range(50)) == 10


def test_floods_from_many_addresses_are_bounded_and_changes_are_always_written() -> None:
    limit = AuditLimit(per_second=100, per_host_second=10)
    now = Instant(0)
    written = sum(limit.allows("authentication", f"10.1.{n}", now) for n in range(3 * HOSTS_MAX))
    assert written == 1_000
    assert len(limit._hosts) == HOSTS_MAX
    assert limit.allows("change", "10.1.1", now)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("alice", "User:alice"),
        ("", ""),
        ("gq_" + 64 * "a", "User:(hidden)"),
        ("eyJhbGciOi.eyJzdWIiOiJ4.c2lnbmF0dXJl", "User:(hidden)"),
        (150 * "x", "User:(hidden)"),
        ("first.last", "User:first.last"),
    ],
)
def test_a_name_that_may_be_a_secret_is_not_shown(name: str, shown: str) -> None:
    assert claimed_principal(name) == shown


def test_long_texts_are_cut() -> None:
    assert len(shorten(10_000 * "x")) == 500


EVENT = AuditEvent(
    "2026-01-01T00:00:00Z",
    1,
    "authorization",
    allowed=False,
    principal="User:alice",
    host="10.0.0.1",
    request="DELETE /topics/{topic}",
    operation="DELETE",
    resource="topic:orders",
)


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        (AuditFilter(), True),
        (AuditFilter(kind="authorization", allowed=False, host="10.0.0.1"), True),
        (AuditFilter(principal="alice"), True),
        (AuditFilter(principal="User:alice", operation="delete", resource="orders"), True),
        (AuditFilter(operation="/topics"), True),
        (AuditFilter(principal="bob"), False),
        (AuditFilter(allowed=True), False),
        (AuditFilter(kind="change"), False),
        (AuditFilter(host="10.0.0.2"), False),
        (AuditFilter(operation="write"), False),
        (AuditFilter(resource="invoices"), False),
    ],
)
def test_events_are_found_by_what_they_are_about(wanted: AuditFilter, is_found: bool) -> None:
    assert wanted.matches(EVENT) is is_found
