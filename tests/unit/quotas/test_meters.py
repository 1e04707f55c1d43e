"""Clients share buckets as their quotas say, and a change of a quota forgives nothing."""

import pytest

from goqueue.model.ids import Instant
from goqueue.quotas import (
    ANY,
    CONNECTIONS,
    NO_METER,
    PUBLISH_BYTES,
    REQUESTS,
    Meters,
    QuotaEntity,
    meters,
)

NOW = Instant(5)


def test_a_user_shares_what_is_for_the_user():
    table, made = {QuotaEntity("u"): {REQUESTS: 1.0}}, Meters()
    one, two = (made.meter_of(table, "u", each, NOW) for each in ("a", "b"))
    assert one.take(REQUESTS, 2, NOW) > 0
    assert two.wait_ns(REQUESTS, NOW) > 0
    assert not two.limits(PUBLISH_BYTES)


def test_what_is_for_each_is_shared_by_nobody():
    table, made = {QuotaEntity(ANY): {REQUESTS: 1.0}}, Meters()
    made.meter_of(table, "u", "a", NOW).take(REQUESTS, 9, NOW)
    assert made.meter_of(table, "v", "a", NOW).wait_ns(REQUESTS, NOW) == 0


def test_a_tenants_users_share_its_quota_beside_their_own():
    table, made = {QuotaEntity("u"): {REQUESTS: 100.0}}, Meters()
    tenant = "acme", {REQUESTS: 10.0}
    one = made.meter_of(table, "u", "", NOW, tenant)
    two = made.meter_of(table, "v", "", NOW, tenant)
    assert one.take(REQUESTS, 20, NOW) > 0
    assert two.wait_ns(REQUESTS, NOW) == one.wait_ns(REQUESTS, NOW) > 0
    other = made.meter_of(table, "w", "", NOW, ("other", {REQUESTS: 10.0}))
    assert other.wait_ns(REQUESTS, NOW) == 0


def test_a_change_keeps_the_debt():
    made = Meters()
    made.meter_of({QuotaEntity("u"): {REQUESTS: 1.0}}, "u", "", NOW).take(REQUESTS, 5, NOW)
    changed = made.meter_of({QuotaEntity("u"): {REQUESTS: 2.0}}, "u", "", NOW)
    assert 1.9e9 < changed.wait_ns(REQUESTS, NOW) < 2.1e9


def test_without_quotas_all_have_the_same_meter():
    assert Meters().meter_of({}, "u", "c", NOW) is NO_METER
    assert NO_METER.is_empty
    assert NO_METER.take(REQUESTS, 5, NOW) == NO_METER.wait_ns(REQUESTS, NOW) == 0


def test_connections_of_an_address():
    table, made = {QuotaEntity(ip=ANY): {CONNECTIONS: 2.0}}, Meters()
    waits = [made.connection_wait_ns(table, "10.0.0.1", NOW) for _ in range(5)]
    assert [bool(each) for each in waits] == [False, False, False, True, True]
    assert made.connection_wait_ns(table, "10.0.0.2", NOW) == 0


def test_buckets_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(meters, "BUCKETS_MAX", 3)
    table, made = {QuotaEntity(ANY): {REQUESTS: 1.0}}, Meters()
    made.meter_of(table, "debtor", "", NOW).take(REQUESTS, 5, NOW)
    for number in range(20):
        made.meter_of(table, f"u{number}", "", NOW)
    assert made.meter_of(table, "debtor", "", NOW).wait_ns(REQUESTS, NOW) > 0
    assert len(made._buckets) <= 3
