"""CreateAcls, DeleteAcls, DescribeAcls: who may do what, as `kafka-acls.sh` sets and shows it.

Where permissions are not checked (`auth.enabled`, `auth.acls`), all of them answer
SECURITY_DISABLED, as Apache Kafka does without an authorizer.
"""

from typing import Any, Final, Protocol

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v3.response import AclCreationResult, CreateAclsResponse
from kio.schema.delete_acls.v3.request import DeleteAclsRequest
from kio.schema.delete_acls.v3.response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kio.schema.errors import ErrorCode

from goqueue.cluster.metadata import AclsAdded, AclsRemoved
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.security import Acl, AclFilter, Operation, Pattern, Permission, ResourceType
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build

DISABLED: Final = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "permissions are not checked here (settings auth.enabled and auth.acls)",
}
DONE: Final = {"error_code": ErrorCode.none, "error_message": None}

Answer = dict[str, Any]  # error code and message


class FilterFields(Protocol):
    """Of DescribeAcls and of each filter of DeleteAcls, which are alike."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def _refuse(context: Context, operation: Operation) -> Answer | None:
    """Why nothing is done at all; None if it may be."""
    if not context.broker.permissions.is_enforced:
        return DISABLED
    try:
        context.access.demand_cluster(operation)
    except GoQueueError as error:
        return _describe_error(error)
    return None


def _describe_error(error: GoQueueError) -> Answer:
    return {"error_code": kafka_code(error), "error_message": str(error)}


# --- CreateAcls -------------------------------------------------------------------------------


async def handle_create_acls(context: Context, request: CreateAclsRequest) -> CreateAclsResponse:
    """Those that are in order are added together; one that is there already is no mistake."""
    refusal = _refuse(context, Operation.ALTER)
    answers: list[Answer] = []
    acls: list[Acl] = []
    async for asked in in_turns(request.creations):
        try:
            if refusal is None:
                acls.append(_parse(asked))
            answers.append(refusal or DONE)
        except GoQueueError as error:
            answers.append(_describe_error(error))
    if acls:
        try:
            await context.broker.change_security([AclsAdded(tuple(acls))])
        except GoQueueError as error:
            failed = _describe_error(error)
            answers = [failed if each is DONE else each for each in answers]
    results = tuple(build(AclCreationResult, **each) for each in answers)
    return build(CreateAclsResponse, results=results)


def _parse(asked: AclCreation) -> Acl:
    try:
        acl = Acl(
            ResourceType(asked.resource_type),
            asked.resource_name,
            Pattern(asked.resource_pattern_type),
            asked.principal,
            asked.host,
            Operation(asked.operation),
            Permission(asked.permission_type),
        )
    except ValueError as error:
        raise InvalidRequest(f"no such ACL can be kept: {error}") from error
    return acl.check()


# --- DescribeAcls -----------------------------------------------------------------------------


async def handle_describe_acls(
    context: Context, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    refusal = _refuse(context, Operation.DESCRIBE)
    if refusal is not None:
        return build(DescribeAclsResponse, **refusal, resources=())
    try:
        found = _find(context, request)
    except GoQueueError as error:
        return build(DescribeAclsResponse, **_describe_error(error), resources=())
    resources: dict[tuple[ResourceType, str, Pattern], list[Acl]] = {}
    for acl in found:
        resources.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(acl)
    return build(
        DescribeAclsResponse,
        **DONE,
        resources=tuple(
            build(
                DescribeAclsResource,
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern,
                acls=tuple(build(AclDescription, **_who_may(acl)) for acl in acls),
            )
            for (resource_type, name, pattern), acls in resources.items()
        ),
    )


def _find(context: Context, fields: FilterFields) -> list[Acl]:
    try:
        wanted = AclFilter(
            ResourceType(fields.resource_type_filter),
            fields.resource_name_filter,
            Pattern(fields.pattern_type_filter),
            fields.principal_filter,
            fields.host_filter,
            Operation(fields.operation),
            Permission(fields.permission_type),
        )
    except ValueError as error:
        raise InvalidRequest(f"no ACL can match that: {error}") from error
    return [acl for acl in context.broker.metadata.security.acls if wanted.matches(acl)]


def _who_may(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


# --- DeleteAcls -------------------------------------------------------------------------------


async def handle_delete_acls(context: Context, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """What any filter matches is removed together."""
    refusal = _refuse(context, Operation.ALTER)
    found: list[list[Acl] | Answer] = []
    async for fields in in_turns(request.filters):
        try:
            found.append(refusal or _find(context, fields))
        except GoQueueError as error:
            found.append(_describe_error(error))
    removed = dict.fromkeys(acl for each in found if isinstance(each, list) for acl in each)
    if removed:
        try:
            await context.broker.change_security([AclsRemoved(tuple(removed))])
        except GoQueueError as error:
            failed = _describe_error(error)
            found = [failed if isinstance(each, list) else each for each in found]
    return build(DeleteAclsResponse, filter_results=tuple(map(_answer_filter, found)))


def _answer_filter(found: list[Acl] | Answer) -> DeleteAclsFilterResult:
    if isinstance(found, dict):
        return build(DeleteAclsFilterResult, **found, matching_acls=())
    matching = tuple(
        build(
            DeleteAclsMatchingAcl,
            **DONE,
            resource_type=acl.resource_type,
            resource_name=acl.name,
            pattern_type=acl.pattern,
            **_who_may(acl),
        )
        for acl in found
    )
    return build(DeleteAclsFilterResult, **DONE, matching_acls=matching)
