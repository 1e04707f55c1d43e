"""The API document: OpenAPI 3.1 from the handlers and their types.

Litestar writes most of it.  Added here is what it cannot know: the body of a publish request,
which is decoded by hand for speed, and what some operations answer beside their usual.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from itertools import pairwise
from types import ModuleType
from typing import Any, Final

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Tag
from litestar.types import Method

from goqueue._version import __version__
from goqueue.api import (
    cluster,
    dlq,
    errors,
    groups,
    messages,
    queues,
    schedules,
    schemas,
    server,
    topics,
    transactions,
)
from goqueue.api.messages import INT32_MAX, PublishRequest, PublishResponse
from goqueue.api.parsing import INT64_MAX, NAME_PATTERN
from goqueue.api.queues import RefusedBody, SettledBody
from goqueue.model.settings import SETTINGS

DESCRIPTION: Final = """\
A durable log that is used as a stream and as a queue.

* Everything but the operations about the server itself is also served below `/v1`.
* Errors are `{"error": {"code", "message", "details"}}`: match on `code`, show `message`.
* Times in responses are RFC 3339; in requests also milliseconds since 1970.
* Keys, values and header values are text, or base64 where `"encoding": "base64"` says so.
* A request that gets 429, 503 or 507 with `Retry-After` may be repeated as it is, after that time.
"""

TAGS: Final = [
    Tag("messages", description="Publish and read."),
    Tag("topics", description="Create, describe, change and delete."),
    Tag("groups", description="Consumer groups: read as a member, show and reset offsets."),
    Tag("queues", description="Receive single messages, and ack or nack each of them."),
    Tag("dead letters", description="Messages that could not be processed."),
    Tag(
        "transactions",
        description="Write to several partitions and commit offsets, all or nothing.",
    ),
    Tag("traces", description="Journeys of messages: every step that one took, at any node."),
    Tag("delays", description="Messages that are for later: list, reschedule, cancel."),
    Tag("schedules", description="Publish again and again: by cron, or at intervals."),
    Tag("schemas", description="Register schemas, and check how they evolve."),
    Tag("security", description="Users, API keys and access control lists."),
    Tag("quotas", description="How much users, client ids and addresses may use."),
    Tag("tenants", description="Spaces of names with limits of their own."),
    Tag("group transactions", description="For engines: many transactions, one decision."),
    Tag("server", description="Health, metrics and this document."),
    Tag("cluster", description="Nodes, and where partitions are."),
]

BODIES: Final = (
    cluster,
    dlq,
    errors,
    groups,
    messages,
    queues,
    schedules,
    schemas,
    server,
    topics,
    transactions,
)

LICENSE: Final = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}

_ANY_SERVER: Final = b'"servers":[{"url":"/"}]'
_SUCCESS: Final = {"201": "Created; `Location` has its address."}

_SOME_REFUSED: Final = "Some were refused: `results` has an `error` for each of those."
# msgspec describes no choice of structs without tags, so the results' kinds are added by hand.
_SETTLED_MANY: Final = msgspec.defstruct(
    "SettledManyBody", [("settled", int), ("refused", int), ("results", list[Any])]
)
_SETTLED: Final = (SettledBody, _SETTLED_MANY)
_ANSWERS: Final[Mapping[str, tuple[Any, ...]]] = {  # of operations that may succeed in part
    "publish": (PublishResponse,),
    **dict.fromkeys(("ack", "nack", "reject", "extend", "release"), _SETTLED),
    **dict.fromkeys(("extend_held", "release_held"), (_SETTLED_MANY,)),
}

_PUBLISH_EXAMPLE: Final = {
    "messages": [
        {"value": "hello"},
        {"key": "user-1", "value": {"name": "Ada"}, "headers": {"source": "signup"}},
    ]
}


class ApiDocument:
    """The document, made when first asked for.

    That takes an application of its own, because one that knows its document also serves pages
    which load their scripts from elsewhere.
    """

    def __init__(self, make_app: Callable[[OpenAPIConfig], Litestar]) -> None:
        self._make_app = make_app

    @cached_property
    def content(self) -> dict[str, Any]:
        config = OpenAPIConfig(
            "GoQueue",
            __version__,
            description=DESCRIPTION,
            tags=TAGS,
            use_handler_docstrings=True,
            operation_id_creator=_operation_id,
            render_plugins=[JsonRenderPlugin()],
        )
        schema = self._make_app(config).openapi_schema.to_schema()
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema))
        _add_publish_body(found)
        _add_unions(found)
        _add_multi_status(found)
        structs = list(_structs(BODIES))
        _add_strictness(found["components"]["schemas"], structs)
        _add_meanings(found["components"]["schemas"], structs)
        _say_what_success_is(found)
        found["security"] = []  # there is no authentication yet
        found["info"]["license"] = LICENSE
        simplified: dict[str, Any] = _simplify(found)
        return simplified

    def json(self, address: str) -> bytes:
        """For a server that is reached at this address."""
        server = b'"servers":%s' % msgspec.json.encode([{"url": address}])
        return self._json.replace(_ANY_SERVER, server, 1)

    @cached_property
    def _json(self) -> bytes:
        return msgspec.json.encode(self.content, order="deterministic")


def _operation_id(handler: HTTPRouteHandler, _: Method, path: list[str | Any]) -> str:
    """The handler's name; with the path's first word where one handler serves several paths."""
    if len(handler.paths) == 1:
        return handler.handler_name
    return f"{handler.handler_name}_{path[0]}"


def _publish(found: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = found["paths"]["/topics/{topic}/messages"]["post"]
    return operation


def _add_publish_body(found: dict[str, Any]) -> None:
    (schema,), components = _schemas([PublishRequest])
    found["components"]["schemas"].update(components)
    raw = {"type": "string", "description": "The value of one message, as it is."}
    _publish(found)["requestBody"] = {
        "required": True,
        "content": {
            "application/json": {"schema": schema, "example": _PUBLISH_EXAMPLE},
            "application/octet-stream": {"schema": {**raw, "format": "binary"}},
        },
    }


def _add_unions(found: dict[str, Any]) -> None:
    """What is answered with one of several shapes, of which errors are one."""
    for operation in _operations(found):
        types = _ANSWERS.get(operation["operationId"], ())
        if types:
            schemas, components = _schemas(types)
            found["components"]["schemas"].update(components)
            schema = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
            operation["responses"]["200"]["content"] = {"application/json": {"schema": schema}}
    kinds, components = _schemas((SettledBody, RefusedBody))
    found["components"]["schemas"].update(components)
    many = found["components"]["schemas"]["SettledManyBody"]
    many["properties"]["results"]["items"] = {"anyOf": list(kinds)}


def _schemas(types: Sequence[Any]) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    return msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")


def _operations(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in found["paths"].values():
        yield from (each for each in methods.values() if "responses" in each)


def _say_what_success_is(found: dict[str, Any]) -> None:
    """Litestar has Python's own words for statuses there."""
    for operation in _operations(found):
        for status, answer in operation["responses"].items():
            own = HTTPStatus(int(status)).description
            if status.startswith("2") and answer.get("description") == own:
                answer["description"] = _SUCCESS.get(status, "Success.")


def _simplify(schema: Any) -> Any:
    """The same with fewer turns, which generators of clients stumble over.

    A choice of one, or of one and null, is that one; a choice has no default, since absent means it
    anyway; what may be only certain texts is a text; a whole number that 32 bits may not hold says
    so.
    """
    if isinstance(schema, list):
        return [_simplify(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _simplify(each) for name, each in schema.items()}
    for choice in ("oneOf", "anyOf"):
        options = found.get(choice)
        if not isinstance(options, list):
            continue
        found.pop("default", None)
        options = _with_null(options)
        found[choice] = options
        if len(options) == 1:
            del found[choice]
            found = {**options[0], **found}
    if "type" not in found and isinstance(found.get("enum"), list):
        found = {"type": "string", **found}
    if (
        found.get("type") in ("integer", ["integer", "null"])
        and found.get("maximum", INT64_MAX) > INT32_MAX
    ):
        found["format"] = "int64"
    return found


def _with_null(options: list[Any]) -> list[Any]:
    """A plain type or null is a plain type that may be null."""
    match options:
        case [{"type": str(kind)} as one, {"type": "null"}] if "enum" not in one:
            return [{**one, "type": [kind, "null"]}]
        case _:
            return options


def _add_multi_status(found: dict[str, Any]) -> None:
    for operation in _operations(found):
        if operation["operationId"] in _ANSWERS:
            answers = operation["responses"]
            answers["207"] = {**answers["200"], "description": _SOME_REFUSED}


def _add_strictness(schemas: dict[str, Any], structs: list[type[msgspec.Struct]]) -> None:
    """Say where unknown fields and names are refused."""
    for struct in structs:
        if struct.__struct_config__.forbid_unknown_fields and struct.__name__ in schemas:
            schemas[struct.__name__]["additionalProperties"] = False
    names = sorted(SETTINGS)
    schemas["ChangeSettings"]["properties"]["unset"]["items"] = {"type": "string", "enum": names}
    for name, field in (("ChangeSettings", "set"), ("CreateTopic", "settings")):
        schemas[name]["properties"][field]["propertyNames"] = {"enum": names}
    schemas["CreateTopic"]["properties"]["name"]["pattern"] = NAME_PATTERN


def _add_meanings(schemas: dict[str, Any], structs: list[type[msgspec.Struct]]) -> None:
    """Fields are described where they stand, by the text below them."""
    for struct in structs:
        properties = schemas.get(struct.__name__, {}).get("properties", {})
        for name, meaning in _field_texts(struct).items():
            if name in properties:
                properties[name] = {**properties[name], "description": meaning}


def _structs(modules: Sequence[ModuleType]) -> Iterator[type[msgspec.Struct]]:
    for module in modules:
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
