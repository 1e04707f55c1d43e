"""Requests of a tenant's clients as they are inside, and responses as these clients know them.

One table has what the types of the fields do not tell: keys of coordinators, names of resources,
regular expressions, and bytes that clients send each other.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from goqueue.groups import in_namespace
from goqueue.groups.embedded import PROTOCOL_TYPE
from goqueue.quotas import Namespace
from goqueue.server.kafka.tenancy.embedded import change_assignment, change_subscription
from goqueue.server.kafka.tenancy.fields import Change, Changes, change_names
from goqueue.wire.apis import ApiKey

TOPIC, GROUP = 2, 32  # types of resources that have settings
_KEYS_WITH_NAMES: Final = (0, 1)  # of coordinators: groups and transactional ids

Special = Callable[[Any, Namespace], Any]


def into_namespace(api_key: int, request: Any, namespace: Namespace) -> Any:
    """The request with the names that things have inside."""
    changed = change_names(request, Changes(namespace.into, _same))
    special = _REQUESTS.get(api_key)
    return changed if special is None else special(changed, namespace)


def out_of_namespace(api_key: int, response: Any, namespace: Namespace) -> Any:
    """The response with the names that the tenant's clients know."""
    changed = change_names(response, Changes(namespace.out, namespace.out_text))
    special = _RESPONSES.get(api_key)
    return changed if special is None else special(changed, namespace)


def _same(text: str) -> str:
    return text


# --- where names are ------------------------------------------------------------------------------


def _in_field(field: str, change: Special) -> Special:
    """Of a message: with the field's value changed, if it has one."""

    def change_field(message: Any, namespace: Namespace) -> Any:
        value = getattr(message, field)
        return replace(message, **{field: change(value, namespace)}) if value else message

    return change_field


def _each(change: Special) -> Special:
    return lambda values, namespace: tuple(change(each, namespace) for each in values)


def _in_each(field: str, inner: str, change: Special) -> Special:
    """Of a message: with a field of each object in a list changed."""
    return _in_field(field, _each(_in_field(inner, change)))


def _of_consumers(change: Special) -> Special:
    """Only the bytes of consumers are known; SyncGroup tells its protocol from version 5 on."""

    def change_consumers(message: Any, namespace: Namespace) -> Any:
        is_known = message.protocol_type in (None, PROTOCOL_TYPE)
        return change(message, namespace) if is_known else message

    return change_consumers


# --- what stands there ----------------------------------------------------------------------------


def _regex_into(regex: str, namespace: Namespace) -> str:
    return in_namespace(namespace.prefix, regex)


def _resource_into(resource: Any, namespace: Namespace) -> Any:
    return _rename(resource, namespace.into)


def _resource_out(resource: Any, namespace: Namespace) -> Any:
    return _rename(resource, namespace.out)


def _rename(resource: Any, change: Change) -> Any:
    """Of settings: topics and groups have names, nodes have numbers."""
    if resource.resource_type not in (TOPIC, GROUP):
        return resource
    return replace(resource, resource_name=change(resource.resource_name))


def _subscription_into(data: bytes, namespace: Namespace) -> bytes:
    return change_subscription(bytes(data), namespace.into)


def _subscription_out(data: bytes, namespace: Namespace) -> bytes:
    return change_subscription(bytes(data), namespace.out)


def _assignment_into(data: bytes, namespace: Namespace) -> bytes:
    return change_assignment(bytes(data), namespace.into)


def _assignment_out(data: bytes, namespace: Namespace) -> bytes:
    return change_assignment(bytes(data), namespace.out)


def _keys_into(request: FindCoordinatorRequest, namespace: Namespace) -> Any:
    if request.key_type not in _KEYS_WITH_NAMES:
        return request
    keys = tuple(namespace.into(each) for each in request.coordinator_keys)
    return replace(request, coordinator_keys=keys)


def _key_out(key: str, namespace: Namespace) -> str:
    """A key that is no name was not changed, and belongs to nobody."""
    return namespace.out(key) or key


def _member_out(member: Any, namespace: Namespace) -> Any:
    """Of a classic group."""
    shown = _in_field("member_metadata", _subscription_out)(member, namespace)
    return _in_field("member_assignment", _assignment_out)(shown, namespace)


_RESOURCES_INTO: Final = _in_field("resources", _each(_resource_into))
_ALTERED_OUT: Final = _in_field("responses", _each(_resource_out))
_REQUESTS: Final[dict[int, Special]] = {
    ApiKey.FIND_COORDINATOR: _keys_into,
    ApiKey.DESCRIBE_CONFIGS: _RESOURCES_INTO,
    ApiKey.ALTER_CONFIGS: _RESOURCES_INTO,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _RESOURCES_INTO,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _in_field("subscribed_topic_regex", _regex_into),
    ApiKey.LIST_TRANSACTIONS: _in_field("transactional_id_pattern", _regex_into),
    ApiKey.JOIN_GROUP: _of_consumers(_in_each("protocols", "metadata", _subscription_into)),
    ApiKey.SYNC_GROUP: _of_consumers(_in_each("assignments", "assignment", _assignment_into)),
}
_RESPONSES: Final[dict[int, Special]] = {
    ApiKey.FIND_COORDINATOR: _in_each("coordinators", "key", _key_out),
    ApiKey.DESCRIBE_CONFIGS: _in_field("results", _each(_resource_out)),
    ApiKey.ALTER_CONFIGS: _ALTERED_OUT,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _ALTERED_OUT,
    ApiKey.JOIN_GROUP: _of_consumers(_in_each("members", "metadata", _subscription_out)),
    ApiKey.SYNC_GROUP: _of_consumers(_in_field("assignment", _assignment_out)),
    ApiKey.DESCRIBE_GROUPS: _in_field(
        "groups", _each(_of_consumers(_in_field("members", _each(_member_out))))
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _in_each(
        "groups",
        "members",
        _each(_in_field("subscribed_topic_regex", lambda regex, namespace: namespace.out(regex))),
    ),
}
