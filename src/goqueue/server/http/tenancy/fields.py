"""Where names are in paths, queries and bodies: one table for all routes.

A request's names are found by the names of their fields, and get the tenant's prefix.  In an answer
whatever text begins with the prefix is such a name: it loses it.  What belongs to users themselves
(values, keys, headers, schemas) is never looked at.
"""

from typing import Any, Final

from goqueue.groups import in_namespace
from goqueue.quotas import Namespace

# In paths, by the name of the parameter; of schedules it is `name`.
PATH_NAMES: Final = frozenset({"topic", "group", "subject", "transactional_id", "application"})
QUERY_NAMES: Final = frozenset({"topic", "group", "subject", "transactional_id"})
# In bodies: texts, or lists of texts.
BODY_NAMES: Final = frozenset(
    {
        *("topic", "topics", "group", "subject", "to", "transactional_id"),
        *("receipt_handle", "receipt_handles", "receipt", "receipts"),  # begin with the topic
    }
)
REGEX: Final = "topics_regex"
KEYED_BY_NAME: Final = frozenset({"offsets"})  # objects whose keys are topics
# Users' own: not looked at, in requests and in answers.
OPAQUE: Final = frozenset(
    {"value", "key", "headers", "header", "schema", "metadata", "contents", "client_id", "consumer"}
)
# Whose body has a `name` that is one; and whose pages begin after one.
NAMED_BODIES: Final = frozenset({"POST /topics", "POST /schedules"})
PAGES: Final = frozenset({"GET /topics", "GET /groups", "GET /schedules"})
# Bodies that have no name in them, and may be large.
PLAIN_BODIES: Final = frozenset({"POST /topics/{topic}/messages"})


def body_into(body: Any, namespace: Namespace, route: str) -> Any:
    if isinstance(body, dict) and route in NAMED_BODIES and isinstance(body.get("name"), str):
        body = {**body, "name": namespace.into(body["name"])}
    return _into(body, namespace)


def _into(value: Any, namespace: Namespace) -> Any:
    if isinstance(value, list):
        return [_into(each, namespace) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _field_into(name, each, namespace) for name, each in value.items()}


def _field_into(name: str, value: Any, namespace: Namespace) -> Any:
    if name in OPAQUE:
        return value
    if name == REGEX and isinstance(value, str) and value:
        return in_namespace(namespace.prefix, value)
    if name in BODY_NAMES:
        return _names_into(value, namespace)
    if name in KEYED_BY_NAME and isinstance(value, dict):
        return {namespace.into(each): inner for each, inner in value.items()}
    return _into(value, namespace)


def _names_into(value: Any, namespace: Namespace) -> Any:
    if isinstance(value, str):
        return namespace.into(value)
    if isinstance(value, list):
        return [
            namespace.into(each) if isinstance(each, str) else _into(each, namespace)
            for each in value
        ]
    return _into(value, namespace)


def body_out(value: Any, namespace: Namespace) -> Any:
    """An answer as the tenant's users know its names."""
    if isinstance(value, str):
        if value.startswith(namespace.prefix):
            return value[len(namespace.prefix) :]
        return namespace.out_text(value)
    if isinstance(value, list):
        return [body_out(each, namespace) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name.removeprefix(namespace.prefix): each if name in OPAQUE else body_out(each, namespace)
        for name, each in value.items()
    }
