"""The API document: OpenAPI 3.1 from the handlers and their types.

Litestar writes most of it.  Added here is what it cannot know: the body of a publish request,
which is decoded by hand for speed, and what some operations answer beside their usual.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import msgspec
from litestar import Litestar, Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Tag
from litestar.types import Method

from goqueue._version import __version__
from goqueue.server.http import health, message_bodies, messages, topics
from goqueue.server.http.message_bodies import PublishRequest

DOCUMENT_PATH: Final = "/openapi.json"

DESCRIPTION: Final = """\
A durable log that is used as a stream and as a queue.

* Everything but the operations about the server itself is also served below `/v1`.
* Errors are `{"error": {"code", "message", "details"}}`: match on `code`, show `message`.
* Times are RFC 3339 on the way out; on the way in also milliseconds since 1970.
* Keys, values and header values are text, or base64 where `"encoding": "base64"` says so.
* A status of 503 or 507 with `Retry-After` may be tried again as it is.
"""

TAGS: Final = [
    Tag("messages", description="Publish and read."),
    Tag("topics", description="Create, describe, change and delete."),
    Tag("server", description="Health, numbers and this document."),
]

_PUBLISH_EXAMPLE: Final = {
    "messages": [
        {"value": "hello"},
        {"key": "user-1", "value": {"name": "Ada"}, "headers": {"source": "signup"}},
    ]
}


def openapi_config() -> OpenAPIConfig:
    return OpenAPIConfig(
        "GoQueue",
        __version__,
        description=DESCRIPTION,
        tags=TAGS,
        use_handler_docstrings=True,
        operation_id_creator=_operation_id,
    )


def _operation_id(handler: HTTPRouteHandler, _: Method, path: list[str | Any]) -> str:
    """The handler's name; with the path's first word where one handler serves several paths."""
    if len(handler.paths) == 1:
        return handler.handler_name
    return f"{handler.handler_name}_{path[0]}"


@get(DOCUMENT_PATH, tags=["server"], summary="This document", include_in_schema=False)
async def get_document(request: Request[Any, Any, Any]) -> Response[bytes]:
    return Response(document_json(request.app), media_type="application/json")


@lru_cache(maxsize=4)
def document_json(app: Litestar) -> bytes:
    return msgspec.json.encode(document(app), order="deterministic")


def document(app: Litestar) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(app.openapi_schema.to_schema()))
    _add_publish_body(found)
    _add_multi_status(found)
    _add_meanings(found["components"]["schemas"])
    return found


def _publish(found: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = found["paths"]["/topics/{topic}/messages"]["post"]
    return operation


def _add_publish_body(found: dict[str, Any]) -> None:
    (schema,), components = msgspec.json.schema_components(
        [PublishRequest], ref_template="#/components/schemas/{name}"
    )
    found["components"]["schemas"].update(components)
    raw = {"type": "string", "description": "The value of one message, as it is."}
    _publish(found)["requestBody"] = {
        "required": True,
        "content": {
            "application/json": {"schema": schema, "example": _PUBLISH_EXAMPLE},
            "text/plain": {"schema": raw},
            "application/octet-stream": {"schema": {**raw, "format": "binary"}},
        },
    }


def _add_multi_status(found: dict[str, Any]) -> None:
    answers = _publish(found)["responses"]
    answers["207"] = {
        **answers["200"],
        "description": "Some messages were refused: `results` has an `error` for each of those.",
    }


def _add_meanings(schemas: dict[str, Any]) -> None:
    """Fields are described where they stand, by the text below them."""
    for struct in _structs():
        properties = schemas.get(struct.__name__, {}).get("properties", {})
        for name, meaning in _field_texts(struct).items():
            if name in properties:
                properties[name] = {**properties[name], "description": meaning}


def _structs() -> Iterator[type[msgspec.Struct]]:
    for module in (health, message_bodies, messages, topics):
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, msgspec.Struct):
                yield each


def _field_texts(struct: type[msgspec.Struct]) -> dict[str, str]:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in pairwise(definition.body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ):
                found[name] = meaning
            case _:
                pass
    return found


HANDLERS = [get_document]
