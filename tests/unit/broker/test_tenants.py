"""Who belongs to which tenant, what it may have, and how it ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from goqueue.broker import Broker
from goqueue.groups import HeartbeatRequest
from goqueue.groups.errors import GroupMaxSizeReached
from goqueue.model.batch import encode
from goqueue.model.config import Config, GroupsConfig
from goqueue.model.errors import (
    InvalidRequest,
    StorageFailed,
    TenantExists,
    TenantInUse,
    TenantLimitReached,
    TenantNotFound,
    TenantRefused,
)
from goqueue.model.ids import GroupId, TopicName
from goqueue.model.record import Record
from goqueue.quotas import Namespace, Tenant, TenantQuotas, owner_of
from goqueue.runtime import real_environment
from goqueue.security import Principal

ANN = Principal("ann")


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    config = Config(data_dir=str(tmp_path), groups=GroupsConfig(initial_rebalance_delay_ms=0))
    environment = real_environment()
    with contextlib.closing(environment.disk):
        async with Broker(environment, config).running() as broker:
            yield broker


async def test_a_user_belongs_to_one_tenant(broker: Broker):
    tenants = broker.tenants
    assert not tenants.are_set
    await tenants.create(Tenant(tenant_id="acme"))
    with pytest.raises(TenantExists):
        await tenants.create(Tenant(tenant_id="acme"))
    with pytest.raises(TenantNotFound):
        await tenants.set_user("ann", "nobody")
    await tenants.set_user("ann", "acme")
    namespace = tenants.namespace_of(ANN)
    assert namespace is not None
    assert namespace.prefix == "acme."
    assert tenants.namespace_of(Principal("bob")) is None
    assert tenants.users_of("acme") == ["ann"]


async def test_a_token_names_its_tenant(broker: Broker):
    await broker.tenants.create(Tenant(tenant_id="acme"))
    found = broker.tenants.of(Principal("bob", (), "acme"))
    assert found is not None
    with pytest.raises(TenantRefused, match="gone"):
        broker.tenants.of(Principal("bob", (), "other"))
    await broker.tenants.set_user("ann", "acme")
    with pytest.raises(TenantRefused, match="another tenant"):
        broker.tenants.of(Principal("ann", (), "other"))


async def test_who_leaves_a_tenant_can_do_nothing_any_more(broker: Broker):
    await broker.tenants.create(Tenant(tenant_id="acme"))
    await broker.tenants.set_user("ann", "acme")
    await broker.users.put("ann", "pw", ("admin",))
    with pytest.raises(TenantInUse):
        await broker.tenants.set_user("ann", "")
    await broker.users.remove("ann")
    await broker.tenants.set_user("ann", "")
    assert broker.tenants.of(ANN) is None


async def test_a_suspended_tenant_is_refused_with_the_reason(broker: Broker):
    tenants = broker.tenants
    await tenants.create(Tenant(tenant_id="acme"))
    await tenants.set_user("ann", "acme")
    with pytest.raises(InvalidRequest):
        await tenants.set_status("acme", "suspended", " ")
    await tenants.set_status("acme", "suspended", "unpaid")
    with pytest.raises(TenantRefused, match="suspended: unpaid"):
        tenants.of(ANN)
    await tenants.set_status("acme", "active")
    assert tenants.of(ANN) is not None


async def test_limits_of_topics_are_the_controllers(broker: Broker):
    quotas = TenantQuotas(topics=2, partitions_per_topic=3, partitions=4)
    await broker.tenants.create(Tenant(tenant_id="acme", quotas=quotas))
    for partitions, quota in ((4, "partitions_per_topic"),):
        with pytest.raises(TenantLimitReached, match=quota):
            await broker.create_topic("acme.a", partitions=partitions)
    await broker.create_topic("acme.a", partitions=2)
    with pytest.raises(TenantLimitReached, match="partitions_per_topic"):
        await broker.add_partitions("acme.a", 4)
    with pytest.raises(TenantLimitReached, match="the tenant's limit partitions "):
        await broker.create_topic("acme.b", partitions=3)
    await broker.create_topic("acme.b", partitions=2)
    with pytest.raises(TenantLimitReached, match="limit partitions"):
        await broker.add_partitions("acme.a", 3)
    with pytest.raises(TenantLimitReached, match="limit topics"):
        await broker.create_topic("acme.c", partitions=1)
    await broker.create_topic("acme.a.dlq", partitions=1, settings={"retention.ms": "-1"})
    assert broker.topic("acme.a.dlq").settings.retention_ms == quotas.retention_ms
    await broker.create_topic("acme-b", partitions=50)  # nobody's


async def test_a_topic_that_looks_like_anothers_tells_nothing(broker: Broker):
    await broker.create_topic("acme_a", partitions=1)
    await broker.tenants.create(Tenant(tenant_id="acme"))
    await broker.create_topic("acme.a", partitions=1)


async def test_limits_of_groups_and_of_their_members(broker: Broker):
    quotas = TenantQuotas(groups=1, consumers_per_group=2)
    await broker.tenants.create(Tenant(tenant_id="acme", quotas=quotas))
    await broker.create_topic("acme.t", partitions=1)

    async def join(group: str, member: str) -> None:
        await broker.groups.consumer_heartbeat(
            HeartbeatRequest(
                group_id=GroupId(group),
                member_id=member,
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_names=(TopicName("acme.t"),),
                owned=frozenset(),
            )
        )

    await join("acme.g", "one")
    await join("acme.g", "two")
    await join("acme.g", "two")
    with pytest.raises(GroupMaxSizeReached, match="consumers_per_group"):
        await join("acme.g", "three")
    with pytest.raises(GroupMaxSizeReached, match="limit groups"):
        await join("acme.h", "one")
    await join("h", "one")


async def test_what_is_stored_is_counted_and_limited(broker: Broker):
    tenants = broker.tenants
    made = await tenants.create(Tenant(tenant_id="acme", quotas=TenantQuotas(storage_bytes=1)))
    await tenants.check_storage(made)
    await broker.create_topic("acme.t", partitions=1)
    partition = await broker.partition("acme.t", 0)
    broker.append(partition, encode([Record(0, broker.environment.clock.now(), None, b"x")]))
    tenants._counted_at = None
    with pytest.raises(TenantLimitReached, match="storage_bytes"):
        await tenants.check_storage(made)


async def test_who_publishes_does_not_wait_while_what_is_stored_is_counted_again(broker: Broker):
    tenants = broker.tenants
    made = await tenants.create(Tenant(tenant_id="acme", quotas=TenantQuotas(storage_bytes=10)))
    await tenants.check_storage(made)
    assert tenants._counted_at is not None
    may_count = asyncio.Event()
    calls = 0

    async def count() -> dict[str, int]:
        nonlocal calls
        calls += 1
        await may_count.wait()
        return {"acme": 10}

    tenants._count_stored = count  # type: ignore[method-assign]
    tenants._counted_at -= 6 * 10**9
    for _ in range(3):
        await tenants.check_storage(made)  # by the old numbers, at once
        await asyncio.sleep(0)
    assert calls == 1
    may_count.set()
    assert await tenants.stored_bytes("acme") == 10
    with pytest.raises(TenantLimitReached, match="10 bytes, 10 allowed"):
        await tenants.check_storage(made)


async def test_what_cannot_be_counted_again_stays_as_it_was(broker: Broker):
    tenants = broker.tenants
    made = await tenants.create(Tenant(tenant_id="acme", quotas=TenantQuotas(storage_bytes=10)))
    await tenants.check_storage(made)
    assert tenants._counted_at is not None

    async def fail() -> dict[str, int]:
        raise StorageFailed("a disk of this test")

    tenants._count_stored = fail  # type: ignore[method-assign]
    tenants._counted_at -= 6 * 10**9
    await tenants.check_storage(made)
    await asyncio.sleep(0)
    await tenants.check_storage(made)
    assert not broker.is_stopping


async def test_a_tenant_with_topics_is_deleted_by_force(broker: Broker):
    await broker.tenants.create(Tenant(tenant_id="acme"))
    await broker.tenants.set_user("ann", "acme")
    await broker.create_topic("acme.t", partitions=1)
    await broker.create_topic("acmes.t", partitions=1)
    with pytest.raises(TenantInUse):
        await broker.tenants.remove("acme")
    assert await broker.tenants.remove("acme", force=True) == 1
    assert [each.name for each in broker.topics()] == ["acmes.t"]
    with pytest.raises(TenantRefused):
        broker.tenants.of(ANN)
    with pytest.raises(TenantNotFound):
        await broker.tenants.remove("acme")


async def test_tenants_survive_in_the_snapshot(broker: Broker):
    await broker.tenants.create(Tenant(tenant_id="acme", metadata={"plan": "gold"}))
    await broker.tenants.set_user("ann", "acme")
    again = type(broker.metadata)({}, 100)
    for record in broker.metadata.snapshot():
        again.apply(again.decode(again.encode(record)))
    assert again.security.tenants == broker.metadata.security.tenants
    assert again.security.user_tenants == {"ann": "acme"}


def test_names_of_a_namespace():
    acme = Namespace("acme")
    assert [acme.into(each) for each in ("a", "", ".", "..", "acme.a")] == [
        "acme.a",
        "",
        ".",
        "..",
        "acme.acme.a",
    ]
    assert [acme.out(each) for each in ("acme.a", "a", "acmea", "acmes.a", "")] == ["a"] + [""] * 4
    assert not acme.holds("acme.")
    text = "topic 'acme.a' and acme.b, not xacme.c or x.acme.d"
    assert acme.out_text(text) == "topic 'a' and b, not xacme.c or x.acme.d"
    assert [owner_of(each) for each in ("acme.a", "a", ".a", "")] == ["acme", "", "", ""]
