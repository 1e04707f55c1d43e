"""ACLs by Kafka's requests: what is wrong with one does not touch the others."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import entity_of
from goqueue.wire.messages import request_shape
from tests.unit.server.kafka.asking import ask
from tests.unit.server.kafka.walk import Recorder

READ, WRITE, ALL, IDEMPOTENT_WRITE = 3, 4, 2, 12
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, TOKEN = 2, 3, 6


@pytest.fixture
def administrator(guarded: Broker) -> Recorder:
    return Recorder(guarded, "root")


def acl(name: str, operation: int = READ, pattern: int = LITERAL, **fields: Any) -> dict[str, Any]:
    return {
        "resource_type": TOPIC,
        "resource_name": name,
        "resource_pattern_type": pattern,
        "principal": "User:ann",
        "host": "*",
        "operation": operation,
        "permission_type": 3,
        **fields,
    }


def wanted(name: str | None = None, pattern: int = ANY, kind: int = ANY) -> dict[str, Any]:
    return {
        "resource_type_filter": kind,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "operation": ANY,
        "permission_type": ANY,
    }


async def create(broker: Broker, access: Recorder, *acls: dict[str, Any]) -> list[ErrorCode]:
    request = entity_of(request_shape(ApiKey.CREATE_ACLS), {"creations": list(acls)})
    answer = await ask(broker, ApiKey.CREATE_ACLS, access=access, creations=request.creations)
    return [each.error_code for each in answer.results]


async def names(broker: Broker, access: Recorder, fields: dict[str, Any]) -> list[str]:
    answer = await ask(broker, ApiKey.DESCRIBE_ACLS, access=access, **fields)
    assert answer.error_code is ErrorCode.none
    return [f"{each.resource_name}:{len(each.acls)}" for each in answer.resources]


async def test_each_acl_has_its_own_answer(guarded: Broker, administrator: Recorder):
    codes = await create(
        guarded,
        administrator,
        acl("orders"),
        acl("orders"),
        acl("orders", IDEMPOTENT_WRITE),
        acl("orders", principal="ann"),
        acl("orders", resource_type=TOKEN),
        acl("orders", operation=99),
        acl("ord", WRITE, PREFIXED),
    )
    wrong = ErrorCode.invalid_request
    assert codes == [ErrorCode.none, ErrorCode.none, *[wrong] * 4, ErrorCode.none]
    assert len(guarded.metadata.security.acls) == 2


async def test_filters_find_and_remove(guarded: Broker, administrator: Recorder):
    await create(
        guarded,
        administrator,
        acl("orders"),
        acl("orders", WRITE),
        acl("ord", WRITE, PREFIXED),
        acl("*"),
        acl("orders", resource_type=GROUP),
    )
    assert await names(guarded, administrator, wanted()) == ["orders:2", "ord:1", "*:1", "orders:1"]
    matching = await names(guarded, administrator, wanted("orders", MATCH, TOPIC))
    assert matching == ["orders:2", "ord:1", "*:1"]
    assert await names(guarded, administrator, wanted("ord", PREFIXED)) == ["ord:1"]
    strange = await ask(guarded, ApiKey.DESCRIBE_ACLS, access=administrator, **wanted(kind=99))
    assert strange.error_code is ErrorCode.invalid_request
    filters = [wanted("orders", LITERAL, TOPIC), wanted("orders", MATCH, TOPIC), wanted(kind=99)]
    request = entity_of(request_shape(ApiKey.DELETE_ACLS), {"filters": filters})
    answer = await ask(guarded, ApiKey.DELETE_ACLS, access=administrator, filters=request.filters)
    assert [len(each.matching_acls) for each in answer.filter_results] == [2, 4, 0]
    assert answer.filter_results[2].error_code is ErrorCode.invalid_request
    assert await names(guarded, administrator, wanted()) == ["orders:1"]
