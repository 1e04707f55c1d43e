"""Every Kafka API as a stranger, as a reader, and as an administrator: what it asks for is in the
table, and who may not do a thing neither does it nor learns of it."""

import dataclasses
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.security import Operation
from goqueue.server.kafka.access import Access
from goqueue.server.kafka.authentication import SASL_APIS
from goqueue.server.kafka.demands import DEMANDS, NOTHING, Demand
from goqueue.server.kafka.handlers import SERVED_APIS
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import entity_of
from goqueue.wire.messages import duration, request_shape
from tests.unit.server.kafka.asking import ask, fetch, produce
from tests.unit.server.kafka.walk import GROUP, TOPIC, Recorder, requests

REFUSALS = {
    ErrorCode.topic_authorization_failed,
    ErrorCode.group_authorization_failed,
    ErrorCode.cluster_authorization_failed,
    ErrorCode.transactional_id_authorization_failed,
    ErrorCode.unknown_topic_id,  # of a topic that the client may not see
}
# Lists that show what one may see, and what everybody may know.
FILTERED = {
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ApiKey.LIST_GROUPS,
    ApiKey.LIST_TRANSACTIONS,
}
LOOKS = {Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS}
ELSEWHERE = {ApiKey.PRODUCE, ApiKey.FETCH, *SASL_APIS}


async def fill(broker: Broker, access: Access) -> None:
    """The topic that is asked about, and others that nobody asks about."""
    for name in (TOPIC, "hidden"):
        await broker.create_topic(name, partitions=1)
        await produce(broker, name, access=access)
    for group in (GROUP, "hidden-group"):
        topic = {"topic_id": broker.topic(TOPIC).topic_id, "name": TOPIC}
        offsets = {"partition_index": 0, "committed_offset": 1}
        fields: dict[str, Any] = {"group_id": group, "topics": [{**topic, "partitions": [offsets]}]}
        fields |= {"generation_id_or_member_epoch": -1}
        await send(broker, ApiKey.OFFSET_COMMIT, fields, access)
    for name in ("x", "hidden-id"):
        fields = {"transactional_id": name, "transaction_timeout": duration(60_000)}
        answer = await send(broker, ApiKey.INIT_PRODUCER_ID, fields, access)
        assert answer.error_code is ErrorCode.none


async def send(broker: Broker, api: ApiKey, fields: dict[str, Any], access: Access) -> Any:
    request = entity_of(request_shape(api), fields)
    shallow = {each.name: getattr(request, each.name) for each in dataclasses.fields(request)}
    return await ask(broker, api, access=access, **shallow)


async def walk(broker: Broker, api: ApiKey, access: Access) -> list[Any]:
    """The answers to all requests of an API."""
    if api is ApiKey.PRODUCE:
        return [await produce(broker, name, access=access) for name in (TOPIC, "missing")]
    if api is ApiKey.FETCH:
        return [await fetch(broker, name, access=access) for name in (TOPIC, "missing")]
    asked = requests(broker.topic(TOPIC).topic_id)[api]
    return [await send(broker, api, each, access) for each in asked]


def codes(answer: Any) -> Iterator[ErrorCode]:
    """All that are in it."""
    if isinstance(answer, ErrorCode):
        if answer is not ErrorCode.none:
            yield answer
    elif isinstance(answer, tuple):
        for each in answer:
            yield from codes(each)
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            yield from codes(getattr(answer, field.name))


def state(broker: Broker) -> list[Any]:
    """All that a request could change."""
    records = [each for each in broker.metadata.snapshot() if "Producer" not in type(each).__name__]
    partition = broker.partitions.find_open(TOPIC, 0)
    assert partition is not None
    log, machine = partition.log, broker.groups.host_of(GROUP).ahead  # type: ignore[arg-type]
    return [records, log.start_offset, log.end_offset, list(machine.snapshot())]


def test_every_api_that_is_served_is_in_the_table():
    assert sorted(DEMANDS) == sorted(SERVED_APIS)
    assert sorted({*requests(UUID(int=1)), *ELSEWHERE}) == sorted(SERVED_APIS)


async def test_a_stranger_changes_nothing_and_learns_nothing(guarded: Broker):
    table = ["API | demands | a stranger is told"]
    await fill(guarded, Recorder(guarded, "root"))
    before = state(guarded)
    for api in SERVED_APIS:
        if api in SASL_APIS:
            continue
        access = Recorder(guarded, "stranger")
        answers = await walk(guarded, ApiKey(api), access)
        for answer in answers:
            found = set(codes(answer))
            assert found <= REFUSALS, (api, answer)
            assert found or api in FILTERED, (api, answer)
            assert "hidden" not in repr(answer), (api, answer)
        assert access.asked <= DEMANDS[api], api
        assert access.asked or DEMANDS[api] == NOTHING, api
        assert state(guarded) == before, api
        demands = sorted(
            f"{each.operation.name} {each.resource_type.name}" for each in DEMANDS[api]
        )
        told = sorted({each.name for each in codes(tuple(answers))})
        table.append(f"{ApiKey(api).name} | {', '.join(demands)} | {', '.join(told)}")
    print("\n".join(table))  # `pytest -rP` shows it


async def test_a_reader_changes_nothing(guarded: Broker):
    await fill(guarded, Recorder(guarded, "root"))
    before = state(guarded)
    for api in SERVED_APIS:
        if api in SASL_APIS:
            continue
        answers = await walk(guarded, ApiKey(api), Recorder(guarded, "reader"))
        assert state(guarded) == before, api
        kinds = {each.operation for each in DEMANDS[api]}
        if kinds and not kinds & (LOOKS | {Operation.READ}):
            assert all(set(codes(each)) & REFUSALS for each in answers), (api, answers)
    found = await send(guarded, ApiKey.METADATA, {"topics": None}, Recorder(guarded, "reader"))
    assert [topic.name for topic in found.topics] == ["hidden", TOPIC]
    assert (await fetch(guarded, TOPIC, access=Recorder(guarded, "reader"))).records


async def test_the_table_says_what_is_asked_and_no_more(guarded: Broker):
    """Who may do all gets to all the questions; a stranger to those that decide otherwise."""
    await fill(guarded, Recorder(guarded, "root"))
    last = [ApiKey.DELETE_RECORDS, ApiKey.DELETE_GROUPS, ApiKey.DELETE_ACLS, ApiKey.DELETE_TOPICS]
    for api in [*(each for each in SERVED_APIS if each not in last), *last]:
        if api in SASL_APIS:
            continue
        asked: set[Demand] = set()
        answers: list[Any] = []
        for name in ("stranger", "reader", "root"):
            access = Recorder(guarded, name)
            answers = await walk(guarded, ApiKey(api), access)
            asked |= access.asked
        assert asked == DEMANDS[api] or api in PARTLY, (api, DEMANDS[api] ^ asked)
        assert not REFUSALS & set(codes(tuple(answers))) or api in last, (api, answers)


# Of what these demand, part is asked only in cases that have tests of their own.
PARTLY = {ApiKey.PRODUCE, ApiKey.DESCRIBE_TRANSACTIONS}
