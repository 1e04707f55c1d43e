"""Quotas by Kafka's requests, which `kafka-configs.sh` sends."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.broker import Broker
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import entity_of
from goqueue.wire.messages import request_shape
from tests.unit.server.kafka.asking import ask

USER, CLIENT, IP = "user", "client-id", "ip"
EXACT, DEFAULT, ANY = 0, 1, 2


def entry(rates: dict[str, float | None], *entity: tuple[str, str | None]) -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity],
        "ops": [
            {"key": key, "value": rate or 0.0, "remove": rate is None}
            for key, rate in rates.items()
        ],
    }


async def alter(broker: Broker, *entries: dict[str, Any], validate_only: bool = False) -> Any:
    fields = {"entries": entries, "validate_only": validate_only}
    request = entity_of(request_shape(ApiKey.ALTER_CLIENT_QUOTAS), fields)
    answer = await ask(
        broker,
        ApiKey.ALTER_CLIENT_QUOTAS,
        entries=request.entries,
        validate_only=request.validate_only,
    )
    return [each.error_code for each in answer.entries]


async def describe(broker: Broker, *components: tuple[Any, ...], strict: bool = False) -> Any:
    fields = {
        "components": [
            {"entity_type": kind, "match_type": how, "match": name}
            for kind, how, name in components
        ],
        "strict": strict,
    }
    request = entity_of(request_shape(ApiKey.DESCRIBE_CLIENT_QUOTAS), fields)
    answer = await ask(
        broker,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=request.components,
        strict=request.strict,
    )
    if answer.entries is None:
        return answer.error_code
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {
            value.key: value.value for value in each.values
        }
        for each in answer.entries
    }


async def test_quotas_are_set_described_and_removed(broker: Broker):
    both, default, ip = ((USER, "u"), (CLIENT, "c")), ((USER, None),), ((IP, "::1"),)
    codes = await alter(
        broker,
        entry({"producer_byte_rate": 1024.0, "request_rate": 5.0}, *both),
        entry({"consumer_byte_rate": 7.0}, *default),
        entry({"connection_creation_rate": 3.0}, *ip),
    )
    assert codes == [ErrorCode.none] * 3
    rates = {"producer_byte_rate": 1024.0, "request_rate": 5.0}
    everything = {
        both: rates,
        default: {"consumer_byte_rate": 7.0},
        ip: {"connection_creation_rate": 3.0},
    }
    assert await describe(broker) == everything
    assert await describe(broker, (USER, EXACT, "u")) == {both: rates}
    assert await describe(broker, (USER, EXACT, "u"), strict=True) == {}
    assert await describe(broker, (USER, DEFAULT, None)) == {default: {"consumer_byte_rate": 7.0}}
    assert len(await describe(broker, (USER, ANY, None))) == 2
    assert await describe(broker, (USER, ANY, None), (CLIENT, ANY, None)) == {both: rates}
    assert await alter(broker, entry({"producer_byte_rate": None}, *both)) == [ErrorCode.none]
    assert await describe(broker, (USER, EXACT, "u")) == {both: {"request_rate": 5.0}}
    assert await alter(broker, entry({"request_rate": None}, *both)) == [ErrorCode.none]
    assert await describe(broker, (USER, EXACT, "u")) == {}


async def test_what_is_wrong_changes_nothing(broker: Broker):
    wrong = [
        entry({"producer_byte_rate": -1.0}, (USER, "u")),
        entry({"no_such": 1.0}, (USER, "u")),
        entry({"request_rate": 1.0}),
        entry({"request_rate": 1.0}, (USER, "")),
        entry({"request_rate": 1.0}, (USER, "u"), (USER, "v")),
        entry({"request_rate": 1.0}, ("host", "u")),
        entry({"connection_creation_rate": 1.0}, (IP, "::1"), (USER, "u")),
    ]
    fine = entry({"request_rate": 1.0}, (USER, "fine"))
    codes = await alter(broker, *wrong, fine)
    assert codes == [ErrorCode.invalid_request] * len(wrong) + [ErrorCode.none]
    assert await alter(broker, fine | {"ops": []}, validate_only=True) == [ErrorCode.none]
    assert await alter(broker, wrong[0], validate_only=True) == [ErrorCode.invalid_request]
    assert list(await describe(broker)) == [((USER, "fine"),)]


@pytest.mark.parametrize(
    "components",
    [
        [("host", EXACT, "x")],
        [(USER, 9, None)],
        [(USER, EXACT, None)],
        [(USER, ANY, "x")],
        [(USER, ANY, None), (USER, DEFAULT, None)],
    ],
)
async def test_a_filter_that_makes_no_sense(broker: Broker, components: list[Any]):
    assert await describe(broker, *components) is ErrorCode.invalid_request
