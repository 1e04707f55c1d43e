"""What a client is held to follows the metadata."""

from goqueue.broker.quotas import Quotas
from goqueue.cluster import Metadata
from goqueue.cluster.metadata import ClientQuotasChanged
from goqueue.quotas import NO_METER, PUBLISH_BYTES, QuotaEntity
from goqueue.runtime import real_environment
from goqueue.security import ANONYMOUS, Principal


def test_a_meter_is_remembered_until_a_quota_changes():
    metadata, clock = Metadata({}, 100), real_environment().clock
    quotas = Quotas(clock, lambda: metadata)
    ann = Principal("ann")
    assert not quotas.are_set
    assert quotas.meter_of(ann, "c") is NO_METER
    assert quotas.connection_wait_seconds("::1") == 0
    metadata.apply(ClientQuotasChanged(QuotaEntity("ann"), {PUBLISH_BYTES: 10.0}))
    assert quotas.are_set
    meter = quotas.meter_of(ann, "c")
    assert meter.limits(PUBLISH_BYTES)
    assert quotas.meter_of(ann, "c") is meter
    assert quotas.meter_of(ANONYMOUS, "c") is NO_METER
    metadata.apply(ClientQuotasChanged(QuotaEntity("ann"), {PUBLISH_BYTES: None}))
    assert quotas.meter_of(ann, None) is NO_METER


def test_how_often_somebody_waited_is_counted():
    quotas = Quotas(real_environment().clock, lambda: Metadata({}, 100))
    for _ in range(2):
        quotas.note_throttled("x")
    assert quotas.throttled == {"x": 2}
