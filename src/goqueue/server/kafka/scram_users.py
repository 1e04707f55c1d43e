"""DescribeUserScramCredentials, AlterUserScramCredentials: passwords of users, as
`kafka-configs.sh --entity-type users` sets and shows them.

Clients salt the password themselves: the server never sees it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from goqueue.cluster.metadata import ScramRemoved, ScramSet, SecurityRecord
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.security import MECHANISMS, Operation, credential_of
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build

_NUMBERS: Final = dict(enumerate(MECHANISMS, 1))  # the protocol's: SCRAM-SHA-256, SCRAM-SHA-512
_NUMBER_OF: Final = {mechanism: number for number, mechanism in _NUMBERS.items()}


def mechanism_name(number: int) -> str:
    """For people."""
    return _NUMBERS.get(number, f"mechanism {number}")


# --- DescribeUserScramCredentials -------------------------------------------------------------


async def handle_describe_user_scram_credentials(
    context: Context, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Of all users that have any, or of those that are named, each once."""
    try:
        context.access.demand_cluster(Operation.DESCRIBE)
    except GoQueueError as error:
        refusal = {"error_code": kafka_code(error), "error_message": str(error)}
        return build(DescribeUserScramCredentialsResponse, **refusal)
    table = context.broker.metadata.security
    times = Counter(user.name for user in request.users or ())
    if not times:
        times = Counter(name for name in table.users if table.credentials(name))
    results = [_describe(context, *each) async for each in in_turns(times.items())]
    return build(DescribeUserScramCredentialsResponse, error_message=None, results=tuple(results))


def _describe(context: Context, name: str, times: int) -> DescribeUserScramCredentialsResult:
    found = context.broker.metadata.security.credentials(name)
    code, message = ErrorCode.none, None
    if times > 1:
        code, message = ErrorCode.duplicate_resource, "the request names this user more than once"
    elif not found:
        code, message = ErrorCode.resource_not_found, f"no user {name!r} has SCRAM credentials"
    infos = tuple(
        build(CredentialInfo, mechanism=_NUMBER_OF[each.mechanism], iterations=each.iterations)
        for each in found.values()
    )
    return build(
        DescribeUserScramCredentialsResult,
        user=name,
        error_code=code,
        error_message=message,
        credential_infos=infos if code is ErrorCode.none else (),
    )


# --- AlterUserScramCredentials ----------------------------------------------------------------


async def handle_alter_user_scram_credentials(
    context: Context, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """All changes of a user, or none of them; what is wrong with one does not touch another."""
    asked: dict[str, list[Any]] = {}
    changes: tuple[Any, ...] = (*request.deletions, *request.upsertions)
    for each in changes:
        asked.setdefault(each.name, []).append(each)
    results = [await _alter(context, *each) async for each in in_turns(asked.items())]
    return build(AlterUserScramCredentialsResponse, results=tuple(results))


async def _alter(
    context: Context, name: str, asked: Iterable[Any]
) -> AlterUserScramCredentialsResult:
    code, message = ErrorCode.none, None
    try:
        context.access.demand_cluster(Operation.ALTER)
        context.access.demand_power_over(name)
        changes = _changes(name, asked)
        await context.broker.change_security(changes)
    except _Refused as error:
        code, message = error.kafka_code, str(error)
    except GoQueueError as error:
        code, message = kafka_code(error), str(error)
    return build(AlterUserScramCredentialsResult, user=name, error_code=code, error_message=message)


class _Refused(InvalidRequest):
    """With the code that Kafka's tools know it by."""

    def __init__(self, kafka_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.kafka_code = kafka_code


def _changes(name: str, asked: Iterable[Any]) -> list[SecurityRecord]:
    changes: dict[str, SecurityRecord] = {}  # by mechanism
    for each in asked:
        mechanism = _NUMBERS.get(each.mechanism)
        if mechanism is None:
            known = ", ".join(f"{number} {name}" for number, name in _NUMBERS.items())
            text = f"mechanism {each.mechanism} is not served: there are {known}"
            raise _Refused(ErrorCode.unsupported_sasl_mechanism, text)
        if mechanism in changes:
            text = f"the request changes {mechanism} of this user more than once"
            raise _Refused(ErrorCode.duplicate_resource, text)
        if isinstance(each, ScramCredentialUpsertion):
            changes[mechanism] = _upsertion(name, mechanism, each)
        else:
            changes[mechanism] = ScramRemoved(name, mechanism)
    return list(changes.values())


def _upsertion(name: str, mechanism: str, asked: ScramCredentialUpsertion) -> ScramSet:
    salted = bytes(asked.salted_password)
    try:
        credential = credential_of(mechanism, salted, bytes(asked.salt), asked.iterations)
    except InvalidRequest as error:
        raise _Refused(ErrorCode.unacceptable_credential, str(error)) from error
    return ScramSet(name, credential)
