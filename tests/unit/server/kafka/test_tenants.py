"""Every Kafka API as another tenant, with names made to get across: nothing leaks, nothing changes;
and the same APIs within a tenant, by the names that its users know."""

import dataclasses
import re
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.groups.embedded import read_assignment, read_subscription, write_assignment
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId
from goqueue.quotas import Namespace, Tenant
from goqueue.security import Operation, Principal
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.authentication import SASL_APIS
from goqueue.server.kafka.fetch import handle_fetch
from goqueue.server.kafka.fetch_sessions import FetchSessions
from goqueue.server.kafka.handlers import SERVED_APIS
from goqueue.server.kafka.produce import handle_produce
from goqueue.server.kafka.reply import ReplySlot
from goqueue.server.kafka.tenancy.embedded import change_assignment, change_subscription
from goqueue.server.kafka.tenancy.limits import ClientLimits
from goqueue.server.kafka.tenancy.messages import into_namespace, out_of_namespace
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import entity_of
from goqueue.wire.fetch import FetchRequest
from goqueue.wire.messages import duration, request_shape
from tests.unit.server.kafka.asking import ask, frame_of, produce, response_of
from tests.unit.server.kafka.walk import GROUP, HOST, ID, TOPIC, requests

ACME, UMBRA = Namespace("acme"), Namespace("umbra")
NAMES = [
    "t",
    "acme.t",
    "acme..t",
    ".",
    "..",
    "",
    "../acme.t",
    "umbra.t",
    ".acme.t",
    "ａcme.t",
    "a\0t",
]
OWN = re.compile("|".join(re.escape(each) for each in NAMES if "acme" in each))  # of the intruder
NAMED = {TOPIC, GROUP, ID, "consumers", "sharers", "empty", "new", "lacking"}
FRAME_BYTES = 9
BY_ID = 13


def access(broker: Broker, user: str) -> Access:
    return Access(broker.permissions, Principal(user), HOST)


async def fill(broker: Broker) -> None:
    """Two tenants with a user each that may do everything; one has topics, groups and ids."""
    for tenant_id, user in (("acme", "ann"), ("umbra", "eve")):
        await broker.tenants.create(Tenant(tenant_id=tenant_id))
        await broker.tenants.set_user(user, tenant_id)
        await broker.users.put(user, user, ("admin",))
    for name in ("acme.t", "acme.hidden"):
        await broker.create_topic(name, partitions=1)
        await produce(broker, name, access=access(broker, "root"))
    for group in (GROUP, "hidden-group"):
        topic = {"topic_id": broker.topic("acme.t").topic_id, "name": "t"}
        offsets = [{"partition_index": 0, "committed_offset": 1}]
        fields: dict[str, Any] = {"group_id": group, "topics": [{**topic, "partitions": offsets}]}
        fields |= {"generation_id_or_member_epoch": -1}
        await send(broker, ApiKey.OFFSET_COMMIT, fields, "ann", ACME)
    for name in (ID, "hidden-id"):
        fields = {"transactional_id": name, "transaction_timeout": duration(60_000)}
        answer = await send(broker, ApiKey.INIT_PRODUCER_ID, fields, "ann", ACME)
        assert answer.error_code is ErrorCode.none


async def send(
    broker: Broker, api: ApiKey, fields: dict[str, Any], user: str, namespace: Namespace
) -> Any:
    request = into_namespace(api, entity_of(request_shape(api), fields), namespace)
    inside = {each.name: getattr(request, each.name) for each in dataclasses.fields(request)}
    answer = await ask(broker, api, access=access(broker, user), **inside)
    return out_of_namespace(api, answer, namespace)


def rename(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: rename(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [rename(each, name) for each in value]
    return name if isinstance(value, str) and value in NAMED else value


def state(broker: Broker) -> list[Any]:
    """All of the tenant's that a request could change."""
    records = [each for each in broker.metadata.snapshot() if "'acme" in repr(each)]
    partition = broker.partitions.find_open("acme.t", 0)
    assert partition is not None
    machine = broker.groups.host_of(GroupId("acme.g")).ahead
    groups = [each for each in machine.snapshot() if "'acme" in repr(each)]
    return [records, partition.log.start_offset, partition.log.end_offset, groups]


async def test_every_api_as_another_tenant(guarded: Broker, capsys: pytest.CaptureFixture[str]):
    await fill(guarded)
    before, topic_id = state(guarded), guarded.topic("acme.t").topic_id
    table = []
    for api in SERVED_APIS:
        if api in SASL_APIS or api in (ApiKey.PRODUCE, ApiKey.FETCH):
            continue
        answered = 0
        for name in NAMES:
            for fields in requests(topic_id)[api]:
                try:
                    answer = await send(guarded, api, rename(fields, name), "eve", UMBRA)
                except GoQueueError as error:
                    answer = UMBRA.out_text(str(error))
                assert "hidden" not in repr(answer), (api, name, answer)
                assert "acme" not in OWN.sub("", repr(answer)), (api, name, answer)
                assert state(guarded) == before, (api, name)
                answered += 1
        table.append(
            f"{ApiKey(api).name.lower():35} {answered:3} requests: nothing leaks or changes"
        )
    with capsys.disabled():
        print("", *table, sep="\n")


@pytest.mark.parametrize("name", NAMES)
async def test_data_as_another_tenant(guarded: Broker, name: str):
    await fill(guarded)
    before, topic_id = state(guarded), guarded.topic("acme.t").topic_id
    limits = ClientLimits(None, UMBRA)
    for topic, version in ((name, 12), (topic_id, BY_ID)):
        named = {"name": topic} if version < BY_ID else {"topic_id": topic}
        partition = {"index": 0, "records": b""}
        header = frame_of(
            ApiKey.PRODUCE,
            version,
            acks=1,
            timeout=duration(1000),
            topic_data=[{**named, "partition_data": [partition]}],
        )
        slots: list[ReplySlot] = []
        slot = ReplySlot(header, 0.0, slots.append)
        await handle_produce(guarded, access(guarded, "eve"), header, slot, limits)
        sent = b"".join(slots[0].parts or [])
        answer = response_of(ApiKey.PRODUCE, version, sent[FRAME_BYTES:])
        assert answer.responses[0].partition_responses[0].error_code is not ErrorCode.none
        assert (name.encode() in sent) or version == BY_ID
        assert b"acme" not in sent.replace(name.encode() or b"?", b"")
        read = await fetch_by(guarded, named, version)
        assert not read.responses[0].partitions[0].records
        if version == BY_ID:
            assert read.responses[0].partitions[0].error_code is not ErrorCode.none
    assert state(guarded) == before


async def fetch_by(broker: Broker, named: dict[str, Any], version: int) -> Any:
    topic = named if version >= BY_ID else {"topic": named["name"]}
    header = frame_of(
        ApiKey.FETCH,
        version,
        max_wait=duration(0),
        min_bytes=0,
        topics=[{**topic, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}],
    )
    sessions = FetchSessions(10, broker.environment.random)
    limits = ClientLimits(None, UMBRA)
    parts = await handle_fetch(broker, access(broker, "eve"), sessions, 1 << 20, header, limits)
    return response_of(ApiKey.FETCH, version, b"".join(map(bytes, parts)))


async def test_within_a_tenant_names_are_its_own(guarded: Broker):
    await fill(guarded)
    listed = await send(guarded, ApiKey.METADATA, {"topics": None}, "ann", ACME)
    assert [each.name for each in listed.topics] == ["hidden", "t"]
    groups = await send(guarded, ApiKey.LIST_GROUPS, {}, "ann", ACME)
    assert sorted(each.group_id for each in groups.groups) == ["g", "hidden-group"]
    ids = await send(
        guarded,
        ApiKey.LIST_TRANSACTIONS,
        {"duration_filter": -1, "transactional_id_pattern": "^hid.*"},
        "ann",
        ACME,
    )
    assert [each.transactional_id for each in ids.transaction_states] == ["hidden-id"]
    asked = {"resources": [{"resource_type": 2, "resource_name": "t"}]}
    configs = await send(guarded, ApiKey.DESCRIBE_CONFIGS, asked, "ann", ACME)
    assert [each.resource_name for each in configs.results] == ["t"]
    keys = {"key_type": 0, "coordinator_keys": ["g"]}
    found = await send(guarded, ApiKey.FIND_COORDINATOR, keys, "ann", ACME)
    assert [(each.key, each.error_code) for each in found.coordinators] == [("g", ErrorCode.none)]


@pytest.mark.parametrize("regex", ["t|hid.*", "^(t|hidden)$", "^t|^hidden", ".*"])
async def test_a_subscription_by_regex_sees_the_tenants_topics(guarded: Broker, regex: str):
    await fill(guarded)
    await guarded.create_topic("t", partitions=1)
    await guarded.create_topic("umbra.t", partitions=1)
    fields = {
        "group_id": "watchers",
        "member_id": "m",
        "rebalance_timeout": duration(1000),
        "subscribed_topic_regex": regex,
        "topic_partitions": [],
    }
    joined = await send(guarded, ApiKey.CONSUMER_GROUP_HEARTBEAT, fields, "ann", ACME)
    assert joined.error_code is ErrorCode.none, joined
    own = {guarded.topic(each).topic_id for each in ("acme.t", "acme.hidden")}
    assert {each.topic_id for each in joined.assignment.topic_partitions} == own
    asked = {"group_ids": ["watchers"]}
    (group,) = (await send(guarded, ApiKey.CONSUMER_GROUP_DESCRIBE, asked, "ann", ACME)).groups
    (member,) = group.members
    assert member.subscribed_topic_regex == regex
    assert {each.topic_name for each in member.assignment.topic_partitions} == {"t", "hidden"}


async def test_who_belongs_to_no_tenant_needs_to_be_an_administrator(guarded: Broker):
    await fill(guarded)
    may = access(guarded, "root"), access(guarded, "reader")
    assert [each.allows_topic(Operation.READ, "acme.t") for each in may] == [True, False]
    assert [each.allows_topic(Operation.READ, "t") for each in may] == [True, True]
    assert not access(guarded, "ann").allows_topic(Operation.READ, "t")
    assert not access(guarded, "ann").allows_cluster(Operation.ALTER)
    assert access(guarded, "ann").allows_cluster(Operation.CREATE)


async def test_fetch_sessions_are_the_tenants(guarded: Broker):
    sessions = FetchSessions(10, guarded.environment.random)

    def request(session_id: int, epoch: int) -> FetchRequest:
        return FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            isolation_level=0,
            session_id=session_id,
            session_epoch=epoch,
            topics=[],
            forgotten=[],
        )

    opened, _ = sessions.resolve(request(0, 0), "acme")
    assert opened is not None
    stolen = sessions.resolve(request(opened.session_id, 1), "umbra")
    assert stolen == (None, ErrorCode.fetch_session_id_not_found)
    assert sessions.resolve(request(opened.session_id, -1), "umbra") == (None, ErrorCode.none)
    assert sessions.resolve(request(opened.session_id, 1), "acme")[0] is opened


def test_bytes_that_clients_send_each_other():
    sent = write_assignment({"t": [0, 1], "u": [2]}, version=1)
    inside = change_assignment(sent, ACME.into)
    assert read_assignment(inside) == {"acme.t": (0, 1), "acme.u": (2,)}
    assert change_assignment(inside, ACME.out) == sent
    subscription = (
        b"\0\1"
        + b"\0\0\0\1"
        + b"\0\1t"
        + b"\0\0\0\2xy"
        + b"\0\0\0\1"
        + b"\0\1u"
        + b"\0\0\0\1"
        + bytes(4)
    )
    read = read_subscription(change_subscription(subscription, ACME.into))
    assert (read.topics, read.owned) == (("acme.t",), {"acme.u": (0,)})
    assert (
        change_subscription(change_subscription(subscription, ACME.into), ACME.out) == subscription
    )
    for odd in (b"", b"x", b"\0\1\0\0\0\7", subscription[:9]):
        assert change_subscription(odd, ACME.into) == odd


def test_ids_are_of_nobody():
    request = entity_of(request_shape(ApiKey.METADATA), {"topics": [{"topic_id": UUID(int=1)}]})
    assert into_namespace(ApiKey.METADATA, request, ACME).topics[0].topic_id == UUID(int=1)
