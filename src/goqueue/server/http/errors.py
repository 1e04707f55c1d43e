"""Errors over HTTP: one table of status codes, one body.

    {"error": {"code": "topic_not_found", "message": "there is no topic 'x'", "details": {…}}}

`code` is a word to match on and never changes; `message` is for people; `details` is an object
with whatever helps to go on (the offsets that can be read, the field that was wrong).
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers.base import BaseRouteHandler

from goqueue.api.errors import ErrorBody, Problem
from goqueue.api.messages import PublishResponse
from goqueue.api.queues import SettledManyBody
from goqueue.broker.groups.http_requests import NotAssigned
from goqueue.broker.groups.http_sessions import PollSuperseded
from goqueue.broker.messages.idempotency import IdempotencyKeyReused
from goqueue.broker.messages.read import DamagedRecords, UnreadableRecords
from goqueue.cluster import errors as cluster_errors
from goqueue.delay import errors as delay_errors
from goqueue.groups import errors as group_errors
from goqueue.model import errors
from goqueue.queue import errors as queue_errors
from goqueue.schedules import errors as schedule_errors
from goqueue.schemas import errors as schema_errors
from goqueue.server.http.body_errors import (
    BODY,
    empty_body,
    field_text,
    hint,
    not_json,
    unknown_field,
)
from goqueue.trace import errors as trace_errors
from goqueue.txn import errors as txn_errors

RETRY_AFTER_SECONDS: Final = 1

STATUS: Final[Mapping[type[errors.GoQueueError], int]] = {
    errors.GoQueueError: 500,
    errors.InvalidRequest: 400,
    errors.InvalidName: 400,
    errors.InvalidPartitions: 400,
    errors.InvalidReplication: 400,
    errors.InvalidReplicaAssignment: 400,
    errors.InvalidSetting: 400,
    errors.UnsupportedVersion: 400,
    errors.TopicNotFound: 404,
    errors.TopicIdNotFound: 404,
    errors.PartitionNotFound: 404,
    errors.TopicExists: 409,
    errors.PolicyViolation: 422,
    errors.TenantLimitReached: 422,
    errors.TenantNotFound: 404,
    errors.TenantExists: 409,
    errors.TenantInUse: 409,
    errors.TenantRefused: 403,
    errors.OffsetOutOfRange: 416,
    errors.CorruptBatch: 400,
    UnreadableRecords: 422,
    errors.UnsupportedBatch: 400,
    errors.InvalidRecord: 400,
    errors.InvalidRecords: 400,
    errors.InvalidTimestamp: 400,
    errors.BatchTooLarge: 413,
    errors.InvalidProducerEpoch: 409,
    errors.OutOfOrderSequence: 409,
    errors.TransactionCoordinatorFenced: 409,
    errors.Unauthorized: 403,
    errors.AuthenticationFailed: 401,
    errors.LoginThrottled: 429,
    errors.AccessDenied: 403,
    errors.TopicAccessDenied: 403,
    errors.GroupAccessDenied: 403,
    errors.TransactionalIdAccessDenied: 403,
    errors.UserNotFound: 404,
    errors.ApiKeyNotFound: 404,
    errors.DiskFull: 507,
    errors.OutOfHandles: 503,
    errors.StorageFailed: 503,
    errors.CorruptData: 500,
    errors.DataDirectoryInUse: 503,
    errors.WrongDataDirectory: 503,
    errors.NotLeader: 503,
    errors.WrongCluster: 409,
    errors.DuplicateNodeId: 409,
    errors.NodeUnreachable: 503,
    errors.PartitionsMissing: 503,
    errors.NotCoordinator: 503,
    errors.LeadershipLost: 504,
    errors.Fenced: 503,
    errors.Uncertain: 504,
    errors.QuorumUnavailable: 503,
    errors.NotEnoughReplicas: 503,
    errors.OffsetNotAvailable: 503,
    errors.FencedLeaderEpoch: 409,
    errors.UnknownLeaderEpoch: 503,
    errors.TimedOut: 504,
    errors.NotEnoughReplicasAfterAppend: 504,
    errors.ShuttingDown: 503,
    errors.Overloaded: 503,
    errors.QuotaExceeded: 429,
    cluster_errors.NodeNotFound: 404,
    cluster_errors.StaleNodeEpoch: 409,
    cluster_errors.StalePartitionEpoch: 409,
    cluster_errors.IneligibleReplica: 409,
    cluster_errors.NodeInUse: 409,
    cluster_errors.ElectionNotNeeded: 409,
    cluster_errors.LeaderNotAvailable: 503,
    cluster_errors.NoReassignment: 409,
    cluster_errors.FeatureRefused: 409,
    group_errors.GroupError: 400,
    group_errors.InvalidGroupRequest: 400,
    group_errors.InvalidGroupId: 400,
    group_errors.InvalidSessionTimeout: 400,
    group_errors.InvalidRegularExpression: 400,
    group_errors.UnsupportedAssignor: 400,
    group_errors.OffsetMetadataTooLarge: 413,
    group_errors.GroupMaxSizeReached: 422,
    group_errors.GroupNotFound: 404,
    group_errors.UnknownMember: 404,
    group_errors.GroupNotEmpty: 409,
    group_errors.GroupSubscribedToTopic: 409,
    group_errors.MemberIdRequired: 409,
    group_errors.IllegalGeneration: 409,
    group_errors.FencedMemberEpoch: 409,
    group_errors.StaleMemberEpoch: 409,
    group_errors.RebalanceInProgress: 409,
    group_errors.InconsistentGroupProtocol: 409,
    group_errors.GroupModeConflict: 409,
    group_errors.FencedInstance: 409,
    group_errors.UnreleasedInstance: 409,
    delay_errors.DelayError: 400,
    delay_errors.DelayedMessageNotFound: 404,
    delay_errors.DelayedMessageFinished: 409,
    delay_errors.TooManyDelayed: 429,
    trace_errors.TraceError: 400,
    trace_errors.TraceNotFound: 404,
    queue_errors.QueueError: 400,
    queue_errors.ReceiptMalformed: 400,
    queue_errors.ReceiptUnknown: 404,
    queue_errors.ReceiptExpired: 409,
    queue_errors.ReceiptInTransaction: 409,
    queue_errors.TooManyInFlight: 429,
    queue_errors.InvalidQueueSetting: 400,
    queue_errors.QueueGroupNotFound: 404,
    queue_errors.DeadLetterNotFound: 404,
    queue_errors.RedriveNotFound: 404,
    txn_errors.TransactionError: 409,
    txn_errors.ProducerFenced: 409,
    txn_errors.InvalidTransactionState: 409,
    txn_errors.ConcurrentTransactions: 409,
    txn_errors.ApplicationFenced: 409,
    txn_errors.VersionDiffers: 409,
    txn_errors.VersionGoesBack: 409,
    txn_errors.UnknownProducer: 404,
    txn_errors.TransactionalIdNotFound: 404,
    txn_errors.InvalidTransactionTimeout: 400,
    schema_errors.SchemaError: 400,
    schema_errors.SubjectNotFound: 404,
    schema_errors.VersionNotFound: 404,
    schema_errors.SchemaNotFound: 404,
    schema_errors.SubjectSoftDeleted: 404,
    schema_errors.SubjectNotSoftDeleted: 404,
    schema_errors.VersionSoftDeleted: 404,
    schema_errors.VersionNotSoftDeleted: 404,
    schema_errors.CompatibilityNotConfigured: 404,
    schema_errors.ModeNotConfigured: 404,
    schema_errors.IncompatibleSchema: 409,
    schema_errors.InvalidSchema: 422,
    schema_errors.InvalidVersion: 422,
    schema_errors.InvalidCompatibility: 422,
    schema_errors.InvalidMode: 422,
    schema_errors.OperationNotPermitted: 422,
    schema_errors.ReferenceExists: 422,
    schema_errors.InvalidSubject: 422,
    schema_errors.RegistryChanged: 503,
    schema_errors.SchemaViolation: 400,
    schedule_errors.InvalidSchedule: 400,
    schedule_errors.ScheduleNotFound: 404,
    schedule_errors.ScheduleExists: 409,
    schedule_errors.ScheduleChanged: 409,
    schedule_errors.ScheduleFinished: 409,
    schedule_errors.TooManySchedules: 429,
    IdempotencyKeyReused: 422,
    NotAssigned: 403,
    PollSuperseded: 409,
}

# Words for what never reached a handler.
_HTTP_CODES: Final = {
    400: "invalid_request",
    403: "foreign_origin",
    404: "no_such_path",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "request_too_large",
    415: "unsupported_media_type",
}

Results = TypeVar("Results", PublishResponse, SettledManyBody)

_log = structlog.get_logger("goqueue.http")


class Detailed(Exception):
    """An error with facts beside its text, which the caller gets as `details`."""

    def __init__(self, error: errors.GoQueueError, details: Mapping[str, Any]) -> None:
        super().__init__(str(error))
        self.error = error
        self.details = details


def status_of(error: errors.GoQueueError) -> int:
    """The status of the nearest class that the table knows."""
    return next(STATUS[each] for each in type(error).__mro__ if each in STATUS)


def problem_of(error: errors.GoQueueError) -> Problem:
    details: dict[str, Any] = {}
    if isinstance(error, DamagedRecords | UnreadableRecords):
        details["continue_at"] = error.continue_at
    if isinstance(error, errors.PartitionsMissing):
        details["done"] = error.done
        details["missing"] = [
            {"partition": index, "code": why.code} for index, why in error.missing.items()
        ]
    if isinstance(error, errors.QuotaExceeded):
        details["quota"] = error.quota
        details["retry_after_seconds"] = retry_seconds(error)
    if isinstance(error, schema_errors.SchemaViolation):
        details["path"] = error.path
    if isinstance(error, schedule_errors.InvalidSchedule):
        details["mistakes"] = msgspec.to_builtins(error.mistakes)
    if error.retriable:
        details["retriable"] = True
    return Problem(error.code, str(error), details)


def error_response(
    status: int, problem: Problem, headers: Mapping[str, str] | None = None
) -> Response[ErrorBody]:
    return Response(
        ErrorBody(problem),
        status_code=status,
        media_type="application/json",
        headers=dict(headers or {}),
    )


def refusal(
    error: errors.GoQueueError, details: Mapping[str, Any] | None = None
) -> Response[ErrorBody]:
    """The answer to a request that failed as a whole, with `details` beside the error's own."""
    problem = problem_of(error)
    if details:
        problem = Problem(problem.code, problem.message, {**problem.details, **details})
    return error_response(status_of(error), problem, _retry_headers(error))


def answer_in_part(
    body: Results,
    count: int,
    refused: Sequence[errors.GoQueueError],
    headers: dict[str, str] | None = None,
) -> Response[Results] | Response[ErrorBody]:
    """200 when nothing was refused, 207 when some of `count` were, the first error when all."""
    if refused and len(refused) == count:
        return refusal(refused[0], {"results": body.results})
    return Response(body, status_code=207 if refused else 200, headers=headers)


def _retry_headers(error: errors.GoQueueError) -> dict[str, str]:
    return {"Retry-After": str(retry_seconds(error))} if error.retriable else {}


def retry_seconds(error: errors.GoQueueError) -> int:
    """After how many seconds a request may be repeated that was refused for now."""
    if isinstance(error, errors.QuotaExceeded):
        return max(1, math.ceil(error.retry_after_seconds))
    return RETRY_AFTER_SECONDS


# --- handlers -----------------------------------------------------------------------------------


def on_goqueue_error(_: Request[Any, Any, Any], error: errors.GoQueueError) -> Response[ErrorBody]:
    return refusal(error)


def on_detailed(_: Request[Any, Any, Any], detailed: Detailed) -> Response[ErrorBody]:
    return refusal(detailed.error, detailed.details)


def on_validation_error(
    request: Request[Any, Any, Any], error: ValidationException
) -> Response[ErrorBody]:
    """A parameter or body of the wrong shape: each wrong field by name."""
    found = error.extra if isinstance(error.extra, list) else []
    known = _body_fields(request)
    fields = [_field_problem(each, known) for each in found if isinstance(each, dict)]
    text = "; ".join(each["message"] for each in fields) or error.detail
    return error_response(400, Problem("invalid_request", text, {"fields": fields}))


def _body_fields(request: Request[Any, Any, Any]) -> tuple[str, ...]:
    body = request.route_handler.parsed_data_field
    return () if body is None else getattr(body.annotation, "__struct_fields__", ())


def _field_problem(found: Mapping[str, Any], known: Sequence[str]) -> dict[str, str]:
    name = str(found.get("key", ""))
    source = found.get("source")
    place = str(getattr(source, "value", source) or "")
    text = str(found.get("message", "is not valid"))
    if name != "data":  # what handlers call the whole body
        told = field_text(text, ())
        return {"name": name, "in": place, "message": f"{name}: {told}" if name else told}
    if text == "'data'":
        return {"name": "", "in": "body", "message": empty_body(known)}
    field = unknown_field(text)
    if field is not None:
        return {"name": field, "in": "body", "message": field_text(text, known)}
    return {"name": "", "in": "body", "message": f"{BODY}: {field_text(text, known)}"}


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[ErrorBody]:
    """An unknown path or method, a body that is too large or no JSON."""
    code = _HTTP_CODES.get(error.status_code, "internal")
    text = error.detail
    if error.status_code == 413:
        bytes_max = request.route_handler.resolve_request_max_body_size()
        text = f"the body has more than {bytes_max} bytes (setting http.body_bytes_max)"
    elif error.status_code == 400 and text.startswith(("Input data was", "JSON is malformed")):
        text = not_json(text)
    return error_response(error.status_code, Problem(code, text), error.headers)


async def refuse_unknown_parameters(request: Request[Any, Any, Any]) -> None:
    """As unknown fields of a body are: what is misspelt would be ignored in silence."""
    if not request.scope["query_string"]:
        return
    known = _query_names(request.route_handler)
    for name in request.query_params:
        if name not in known:
            raise errors.InvalidRequest(f"unknown parameter `{name}`{hint(name, known)}")


@cache
def _query_names(handler: BaseRouteHandler) -> tuple[str, ...]:
    in_path = re.findall(r"{(\w+):", next(iter(handler.paths)))
    model = handler.create_kwargs_model(path_parameters=dict.fromkeys(in_path))  # type: ignore[arg-type] # it looks at the names
    return tuple(sorted(each.field_alias for each in model.expected_query_params))


def on_bad_text(_: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    """A body that is no UTF-8, or nested beyond sense: the JSON decoder says so in its own way."""
    return error_response(400, Problem("invalid_request", f"the body is not JSON: {error}"))


def on_bug(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    """Our own mistake: told to the log in full, and to the caller without its inside."""
    _log.error("request failed", method=request.method, path=request.url.path, exc_info=error)
    return error_response(500, Problem("internal", "an error of the server's own; see its log"))
