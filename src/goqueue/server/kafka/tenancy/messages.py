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


# --- requests -------------------------------------------------------------------------------------


def _coordinator_keys(request: FindCoordinatorRequest, namespace: Namespace) -> Any:
    if request.key_type not in _KEYS_WITH_NAMES:
        return request
    keys = tuple(namespace.into(each) for each in request.coordinator_keys)
    return replace(request, coordinator_keys=keys)


def _resources(request: Any, namespace: Namespace) -> Any:
    """Of settings: topics and groups have names, nodes have numbers."""
    return replace(request, resources=_rename(request.resources, namespace.into))


def _rename(resources: tuple[Any, ...], change: Change) -> tuple[Any, ...]:
    return tuple(
        replace(each, resource_name=change(each.resource_name))
        if each.resource_type in (TOPIC, GROUP)
        else each
        for each in resources
    )


def _subscribed_regex(request: Any, namespace: Namespace) -> Any:
    regex = request.subscribed_topic_regex
    if not regex:
        return request
    return replace(request, subscribed_topic_regex=in_namespace(namespace.prefix, regex))


def _transactional_pattern(request: Any, namespace: Namespace) -> Any:
    pattern = request.transactional_id_pattern
    if not pattern:
        return request
    return replace(request, transactional_id_pattern=in_namespace(namespace.prefix, pattern))


def _subscriptions(request: Any, namespace: Namespace) -> Any:
    if request.protocol_type != PROTOCOL_TYPE:
        return request
    protocols = tuple(
        replace(each, metadata=change_subscription(bytes(each.metadata), namespace.into))
        for each in request.protocols
    )
    return replace(request, protocols=protocols)


def _assignments(request: Any, namespace: Namespace) -> Any:
    """SyncGroup tells its protocol from version 5 on; before, only consumers' bytes fit."""
    if request.protocol_type not in (None, PROTOCOL_TYPE):
        return request
    assignments = tuple(
        replace(each, assignment=change_assignment(bytes(each.assignment), namespace.into))
        for each in request.assignments
    )
    return replace(request, assignments=assignments)


# --- responses ------------------------------------------------------------------------------------


def _coordinators(response: Any, namespace: Namespace) -> Any:
    """A key that is no name was not changed, and belongs to nobody."""
    coordinators = tuple(
        replace(each, key=namespace.out(each.key) or each.key) for each in response.coordinators
    )
    return replace(response, coordinators=coordinators)


def _show_described(response: Any, namespace: Namespace) -> Any:
    return replace(response, results=_rename(response.results, namespace.out))


def _show_altered(response: Any, namespace: Namespace) -> Any:
    return replace(response, responses=_rename(response.responses, namespace.out))


def _show_join(response: Any, namespace: Namespace) -> Any:
    if response.protocol_type not in (None, PROTOCOL_TYPE):
        return response
    members = tuple(
        replace(each, metadata=change_subscription(bytes(each.metadata), namespace.out))
        for each in response.members
    )
    return replace(response, members=members)


def _show_sync(response: Any, namespace: Namespace) -> Any:
    if response.protocol_type not in (None, PROTOCOL_TYPE):
        return response
    return replace(
        response, assignment=change_assignment(bytes(response.assignment), namespace.out)
    )


def _show_classic(response: Any, namespace: Namespace) -> Any:
    groups = tuple(
        replace(each, members=tuple(_show_member(member, namespace) for member in each.members))
        if each.protocol_type == PROTOCOL_TYPE
        else each
        for each in response.groups
    )
    return replace(response, groups=groups)


def _show_member(member: Any, namespace: Namespace) -> Any:
    return replace(
        member,
        member_metadata=change_subscription(bytes(member.member_metadata), namespace.out),
        member_assignment=change_assignment(bytes(member.member_assignment), namespace.out),
    )


def _show_consumers(response: Any, namespace: Namespace) -> Any:
    def show(member: Any) -> Any:
        regex = member.subscribed_topic_regex
        return replace(member, subscribed_topic_regex=regex and namespace.out(regex))

    groups = tuple(
        replace(each, members=tuple(map(show, each.members))) for each in response.groups
    )
    return replace(response, groups=groups)


_REQUESTS: Final[dict[int, Special]] = {
    ApiKey.FIND_COORDINATOR: _coordinator_keys,
    ApiKey.DESCRIBE_CONFIGS: _resources,
    ApiKey.ALTER_CONFIGS: _resources,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _resources,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _subscribed_regex,
    ApiKey.LIST_TRANSACTIONS: _transactional_pattern,
    ApiKey.JOIN_GROUP: _subscriptions,
    ApiKey.SYNC_GROUP: _assignments,
}
_RESPONSES: Final[dict[int, Special]] = {
    ApiKey.FIND_COORDINATOR: _coordinators,
    ApiKey.DESCRIBE_CONFIGS: _show_described,
    ApiKey.ALTER_CONFIGS: _show_altered,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _show_altered,
    ApiKey.JOIN_GROUP: _show_join,
    ApiKey.SYNC_GROUP: _show_sync,
    ApiKey.DESCRIBE_GROUPS: _show_classic,
    ApiKey.CONSUMER_GROUP_DESCRIBE: _show_consumers,
}
