"""`/registry`: the base URL that Confluent's clients are given as `schema.registry.url`.

Its errors are Confluent's: `{"error_code": 40401, "message": "…"}`.
"""

from typing import Any, Final

import msgspec
import structlog
from litestar import Request, Response, Router, route
from litestar.enums import HttpMethod
from litestar.exceptions import HTTPException

from goqueue.model.errors import GoQueueError
from goqueue.schemas.errors import SchemaError
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.errors import RETRY_AFTER_SECONDS, status_of
from goqueue.server.http.registry import configuration, operations
from goqueue.server.http.registry.calls import Call, find_operation, split_context
from goqueue.server.http.security.visibility import SchemaVisibility

__all__ = ["ROOT", "ROUTER", "configuration", "operations"]  # these two add theirs to the calls

ROOT: Final = "/registry"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"

_METHODS: Final = [HttpMethod.GET, HttpMethod.POST, HttpMethod.PUT, HttpMethod.DELETE]
_log = structlog.get_logger("goqueue.http")


@route(["/", "/{rest:path}"], http_method=_METHODS, include_in_schema=False, name="registry")
async def serve_registry(request: Request[Any, Any, Any], broker: TheBroker) -> Response[bytes]:
    path = "/" + str(request.path_params.get("rest", "")).strip("/")
    context, path = split_context(path)
    found = find_operation(request.method, path)
    if found is None:
        return _answer(404, {"error_code": 404, "message": f"HTTP 404: no {path}"})
    operation, parts = found
    visibility = SchemaVisibility(request.scope, broker.permissions)
    content = await request.body()
    call = Call(broker, parts, request.query_params.dict(), content, context, visibility)
    return _answer(200, await operation(call))


def _on_error(_: Request[Any, Any, Any], error: GoQueueError) -> Response[bytes]:
    if isinstance(error, SchemaError):
        code = error.registry_code
        status = code if code < 1_000 else code // 100
    else:
        status = status_of(error)
        code = status * 100 + 1 if status >= 500 else status
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if error.retriable else {}
    return _answer(status, {"error_code": code, "message": str(error)}, headers)


def _on_http_error(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    body = {"error_code": error.status_code, "message": error.detail}
    return _answer(error.status_code, body)


def _on_bug(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    _log.error("request failed", method=request.method, path=request.url.path, exc_info=error)
    text = "an error of the server's own; see its log"
    return _answer(500, {"error_code": 50001, "message": text})


def _answer(status: int, body: Any, headers: dict[str, str] | None = None) -> Response[bytes]:
    content = msgspec.json.encode(body)
    return Response(content, status_code=status, media_type=CONTENT_TYPE, headers=headers)


ROUTER: Final = Router(
    ROOT,
    route_handlers=[serve_registry],
    exception_handlers={
        GoQueueError: _on_error,
        HTTPException: _on_http_error,
        Exception: _on_bug,
    },
)
