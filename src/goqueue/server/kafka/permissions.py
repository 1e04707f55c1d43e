"""Permissions, passwords and quotas: there are none, as in Apache Kafka without an authorizer."""

from collections import Counter

from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
)
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from kio.schema.errors import ErrorCode

from goqueue.server.kafka.context import Context
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build


async def handle_describe_acls(
    context: Context, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    return build(
        DescribeAclsResponse,
        error_code=ErrorCode.security_disabled,
        error_message="there are no permissions here: whoever reaches the listener may do all",
        resources=(),
    )


async def handle_describe_client_quotas(
    context: Context, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    return build(DescribeClientQuotasResponse, error_message=None, entries=())


async def handle_describe_user_scram_credentials(
    context: Context, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Nobody has a password; who is asked for by name is told so, once."""
    times = Counter(user.name for user in request.users or ())
    results = [_answer_not_found(name, count) async for name, count in in_turns(times.items())]
    return build(DescribeUserScramCredentialsResponse, error_message=None, results=tuple(results))


def _answer_not_found(name: str, times: int) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.resource_not_found, f"no user {name!r} has SCRAM credentials"
    if times > 1:
        code, message = ErrorCode.duplicate_resource, "the request names this user more than once"
    return build(
        DescribeUserScramCredentialsResult, user=name, error_code=code, error_message=message
    )
