"""DescribeClientQuotas and AlterClientQuotas: `kafka-configs.sh` for users, clients and ips."""

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.alter_client_quotas.v1 import request as altered
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.alter_client_quotas.v1.response import EntityData as AlteredEntity
from kio.schema.alter_client_quotas.v1.response import EntryData as AlteredEntry
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kio.schema.errors import ErrorCode

from goqueue.cluster.controller import change_security
from goqueue.cluster.metadata import ClientQuotasChanged
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.quotas import ANY, QuotaEntity
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build

_FIELDS: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}  # by Kafka's word
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2  # match types


# --- DescribeClientQuotas -----------------------------------------------------------------------


async def handle_describe_client_quotas(
    context: Context, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        context.access.demand_cluster(Operation.DESCRIBE_CONFIGS)
        _check_components(request.components)
    except GoQueueError as error:
        refusal = {"error_code": kafka_code(error), "error_message": str(error)}
        return build(DescribeClientQuotasResponse, **refusal, entries=None)
    quotas = context.broker.metadata.security.quotas
    entries = [
        build(
            EntryData,
            entity=tuple(
                build(EntityData, entity_type=kind, entity_name=name or None)
                for kind, name in _parts(entity)
            ),
            values=tuple(build(ValueData, key=key, value=rate) for key, rate in rates.items()),
        )
        for entity, rates in quotas.items()
        if _matches(entity, request.components, strict=request.strict)
    ]
    return build(DescribeClientQuotasResponse, error_message=None, entries=tuple(entries))


def _check_components(components: Iterable[ComponentData]) -> None:
    kinds = [each.entity_type for each in components]
    for each in components:
        _field(each.entity_type)
        if each.match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
            raise InvalidRequest(f"there is no match type {each.match_type}")
        if (each.match is not None) != (each.match_type == _EXACT):
            raise InvalidRequest("an exact match names the entity, and no other does")
    if len(set(kinds)) < len(kinds):
        raise InvalidRequest("the filter names a type of entity more than once")


def _matches(entity: QuotaEntity, components: Iterable[ComponentData], *, strict: bool) -> bool:
    left = dict(_parts(entity))
    for each in components:
        name = left.pop(each.entity_type, None)
        wanted = {_EXACT: each.match, _DEFAULT: ANY, _SPECIFIED: name}[each.match_type]
        if name is None or name != wanted:
            return False
    return not (strict and left)


def _parts(entity: QuotaEntity) -> list[tuple[str, str]]:
    found = [(kind, getattr(entity, field)) for kind, field in _FIELDS.items()]
    return [(kind, name) for kind, name in found if name is not None]


def _field(kind: str) -> str:
    if kind not in _FIELDS:
        raise InvalidRequest(f"{kind[:80]!r} is no type of entity: there are {', '.join(_FIELDS)}")
    return _FIELDS[kind]


# --- AlterClientQuotas --------------------------------------------------------------------------


async def handle_alter_client_quotas(
    context: Context, request: altered.AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """All changes of an entity, or none of them."""
    entries = [
        await _alter(context, each, validate_only=request.validate_only)
        async for each in in_turns(request.entries)
    ]
    return build(AlterClientQuotasResponse, entries=tuple(entries))


async def _alter(
    context: Context, entry: altered.EntryData, *, validate_only: bool
) -> AlteredEntry:
    code, message = ErrorCode.none, None
    try:
        context.access.demand_cluster(Operation.ALTER_CONFIGS)
        change = ClientQuotasChanged(_entity(entry.entity), _changes(entry.ops))
        if validate_only:
            change_security(context.broker.metadata, [change])
        else:
            await context.broker.change_security([change])
    except GoQueueError as error:
        code, message = kafka_code(error), str(error)
    return build(
        AlteredEntry,
        error_code=code,
        error_message=message,
        entity=tuple(
            build(AlteredEntity, entity_type=each.entity_type, entity_name=each.entity_name)
            for each in entry.entity
        ),
    )


def _entity(parts: Iterable[altered.EntityData]) -> QuotaEntity:
    """Kafka's null is its default."""
    fields: dict[str, Any] = {}
    for each in parts:
        field = _field(each.entity_type)
        if field in fields:
            raise InvalidRequest(f"the entity has more than one {each.entity_type}")
        if each.entity_name == ANY:
            raise InvalidRequest("an entity's name is not empty; null is the default")
        fields[field] = ANY if each.entity_name is None else str(each.entity_name)
    return QuotaEntity(**fields).check()


def _changes(ops: Iterable[altered.OpData]) -> dict[str, float | None]:
    changes: dict[str, float | None] = {}
    for each in ops:
        if each.key in changes:
            raise InvalidRequest(f"the request changes {each.key[:80]!r} more than once")
        changes[each.key] = None if each.remove else float(each.value)
    return changes
