"""The request of a tenant's user, as it is inside: path, query, headers and body."""

import re
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import msgspec

from goqueue.quotas import Namespace
from goqueue.server.http.asgi_types import Scope
from goqueue.server.http.forwarding.transaction_routing import ReadBody
from goqueue.server.http.security.demands import template_text
from goqueue.server.http.tenancy.fields import (
    PAGES,
    PATH_NAMES,
    PLAIN_BODIES,
    QUERY_NAMES,
    body_into,
)

QUERY_FIELDS_MAX: Final = 100
RECEIPT_HEADER: Final = b"last-event-id"
KEY_HEADER: Final = b"idempotency-key"
SUBJECT: Final = re.compile(
    r"(?P<head>/?registry/(?:compatibility/)?(?:subjects|config|mode)/)(?P<name>.+?)"
    r"(?P<tail>(?:/versions(?:/[^/]+(?:/.*)?)?)?/?)"
)


def scope_into(scope: Scope, namespace: Namespace, template: str) -> str:
    """Change path, query and headers; gives the route."""
    route = f"{scope['method']} {template_text(template)}"
    if template.startswith("/registry"):
        scope["path"] = registry_path(scope["path"], namespace)
    else:
        scope["path"] = path_into(scope["path"], template_text(template), namespace)
    scope["raw_path"] = quote(scope["path"]).encode()
    scope["query_string"] = query_into(scope["query_string"], route, namespace)
    scope["headers"] = [
        (name, _header_into(name, value, namespace)) for name, value in scope["headers"]
    ]
    return route


def path_into(path: str, template: str, namespace: Namespace) -> str:
    parts, found = path.rstrip("/").split("/"), template.rstrip("/").split("/")
    if len(parts) != len(found):
        return path
    of_schedules = template.startswith("/schedules/")
    names = PATH_NAMES | {"name"} if of_schedules else PATH_NAMES
    return "/".join(
        namespace.into(part) if each.startswith("{") and each.strip("{}") in names else part
        for part, each in zip(parts, found, strict=True)
    )


def registry_path(path: str, namespace: Namespace) -> str:
    found = SUBJECT.fullmatch(path.lstrip("/"))
    if found is None:
        return path
    return f"/{found['head']}{namespace.into(found['name'])}{found['tail']}"


def query_into(query: bytes, route: str, namespace: Namespace) -> bytes:
    """A list goes on after a name, and begins with the tenant's."""
    pairs = parse_qsl(
        query.decode("latin-1"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
    )
    names = QUERY_NAMES | {"after"} if route in PAGES else QUERY_NAMES
    changed = [(name, namespace.into(each) if name in names else each) for name, each in pairs]
    if route == "GET /schedules" and "after" not in dict(pairs):
        changed.append(("after", namespace.prefix))
    return urlencode(changed).encode() if changed != pairs else query


def _header_into(name: bytes, value: bytes, namespace: Namespace) -> bytes:
    if name == RECEIPT_HEADER and value:
        return namespace.into(value.decode("latin-1")).encode("latin-1")
    if name == KEY_HEADER and value:
        return namespace.prefix.encode() + value
    return value


async def body_of(scope: Scope, receive: Any, namespace: Namespace, route: str) -> Any:
    """From where the body comes then."""
    if scope["method"] in ("GET", "HEAD") or route in PLAIN_BODIES:
        return receive
    reader = ReadBody(receive)
    data = await reader.read()
    if not data:
        return reader
    try:
        decoded = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return reader  # the handler says what is wrong with it
    changed = msgspec.json.encode(body_into(decoded, namespace, route))
    scope["headers"] = [
        (name, b"%d" % len(changed) if name == b"content-length" else value)
        for name, value in scope["headers"]
    ]
    return _one_body(changed, receive)


def _one_body(body: bytes, receive: Any) -> Any:
    events = [{"type": "http.request", "body": body, "more_body": False}]

    async def read() -> Any:
        return events.pop() if events else await receive()

    return read
