"""DescribeConfigs, ListConfigResources, AlterConfigs, IncrementalAlterConfigs: settings of
topics, groups and the server.

Settings of topics and groups can be changed at any time, and so can the throttles of replication
of nodes.  The server's other settings are read at its start and are read-only here.
"""

import enum
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from kio.schema.alter_configs.v2 import request as alter_request
from kio.schema.alter_configs.v2 import response as alter_response
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as incremental_request
from kio.schema.incremental_alter_configs.v1 import response as incremental_response
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

from goqueue.broker import Broker
from goqueue.cluster import Topic
from goqueue.model.errors import GoQueueError, InvalidRequest, InvalidSetting
from goqueue.model.names import refuse_internal, topic_name
from goqueue.model.settings import SETTINGS, setting_text
from goqueue.security import Operation
from goqueue.server.kafka.broker_configs import change_broker, dynamic_entries
from goqueue.server.kafka.config_entries import (
    HTTP_ADDRESS,
    Entry,
    broker_entries,
    topic_entries,
)
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import kafka_code
from goqueue.server.kafka.group_configs import change_group, group_entries
from goqueue.server.kafka.limits import in_turns
from goqueue.wire.messages import build

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

T = TypeVar("T")
Changes = Mapping[str, str | None]


class ConfigOperation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


# --- DescribeConfigs --------------------------------------------------------------------------


async def handle_describe_configs(
    context: Context, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    results = [
        _describe(context, request, resource)
        async for resource in in_turns(dict.fromkeys(request.resources))
    ]
    return build(DescribeConfigsResponse, results=tuple(results))


def _describe(
    context: Context, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    about = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    try:
        # Where HTTP is served is for whoever may log in: Metadata says where Kafka is, to all.
        if list(resource.configuration_keys or ()) != [HTTP_ADDRESS]:
            _demand(context, Operation.DESCRIBE_CONFIGS, resource)
        entries = _entries(context, resource)
    except GoQueueError as error:
        refusal = {"error_code": kafka_code(error), "error_message": str(error)}
        return build(DescribeConfigsResult, **about, **refusal, configs=())
    wanted = resource.configuration_keys or [entry.name for entry in entries]
    configs = tuple(_config(entry, request) for entry in entries if entry.name in wanted)
    return build(DescribeConfigsResult, **about, configs=configs, error_message=None)


def _demand(context: Context, operation: Operation, resource: Any) -> None:
    """Settings of nodes, and what is not known, are the cluster's."""
    if resource.resource_type == TOPIC:
        context.access.demand_topic(operation, resource.resource_name)
    elif resource.resource_type == GROUP:
        context.access.demand_group(operation, resource.resource_name)
    else:
        context.access.demand_cluster(operation)


def _entries(context: Context, resource: DescribeConfigsResource) -> list[Entry]:
    config = context.broker.config
    if resource.resource_type == TOPIC:
        return topic_entries(config, context.broker.topic(topic_name(resource.resource_name)))
    if resource.resource_type == BROKER:
        changeable = dynamic_entries(context.broker, resource.resource_name)
        if not resource.resource_name:
            return changeable
        _refuse_other_node(context, resource.resource_name)
        fixed = broker_entries(config, context.address, context.http_address)
        return sorted([*fixed, *changeable], key=lambda entry: entry.name)
    if resource.resource_type == GROUP:
        return group_entries(context.broker, resource.resource_name)
    raise _unknown(resource.resource_type)


def _config(entry: Entry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return build(
        DescribeConfigsResourceResult,
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        synonyms=tuple(
            build(DescribeConfigsSynonym, name=each.name, value=each.value, source=each.source)
            for each in synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _refuse_other_node(context: Context, name: str) -> None:
    node = context.broker.node_id
    if name != str(node):
        raise InvalidRequest(f"this is node {node}, not {name!r}")


def _unknown(resource_type: int) -> InvalidRequest:
    return InvalidRequest(
        f"resource type {resource_type} has no settings here; topics ({TOPIC}), brokers"
        f" ({BROKER}) and groups ({GROUP}) have"
    )


# --- ListConfigResources ----------------------------------------------------------------------


async def handle_list_config_resources(
    context: Context, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """What has settings: every topic, every node, and the groups for which something is set.

    Version 0 asks for subscriptions to client metrics, of which there are none; loggers neither.
    """
    broker = context.broker
    if not context.access.allows_cluster(Operation.DESCRIBE_CONFIGS):
        return build(ListConfigResourcesResponse, error_code=ErrorCode.cluster_authorization_failed)
    names: dict[int, list[str]] = {
        TOPIC: [topic.name for topic in broker.topics()],
        BROKER: [str(node.node_id) for node in broker.metadata.nodes.members],
        BROKER_LOGGER: [],
        CLIENT_METRICS: [],
        GROUP: list(map(str, sorted(broker.group_configs.groups()))),
    }
    wanted: Collection[int] = request.resource_types or names.keys()
    if context.header.api_version == 0:
        wanted = (CLIENT_METRICS,)
    if not set(wanted) <= names.keys():
        return build(ListConfigResourcesResponse, error_code=ErrorCode.unsupported_version)
    resources = tuple(
        build(ConfigResource, resource_type=kind, resource_name=name)
        for kind in names
        if kind in wanted
        for name in names[kind]
    )
    return build(ListConfigResourcesResponse, config_resources=resources)


# --- AlterConfigs -----------------------------------------------------------------------------


async def handle_alter_configs(
    context: Context, request: alter_request.AlterConfigsRequest
) -> alter_response.AlterConfigsResponse:
    """The old way: what is not named goes back to its default."""

    async def alter(resource: alter_request.AlterConfigsResource) -> None:
        changes = _check_unique(resource.configs)
        for name, entry in changes.items():
            if entry.value is None:
                raise InvalidRequest(f"{name} has no value")
        values = {name: entry.value for name, entry in changes.items()}
        if resource.resource_type in (GROUP, BROKER):
            await _change_plain(context, resource, values, request.validate_only, replace=True)
            return
        await _change(context, resource, lambda _: values, request.validate_only, replace=True)

    result = alter_response.AlterConfigsResourceResponse
    responses = await _alter(context, request.resources, alter, result)
    return build(alter_response.AlterConfigsResponse, responses=responses)


async def handle_incremental_alter_configs(
    context: Context, request: incremental_request.IncrementalAlterConfigsRequest
) -> incremental_response.IncrementalAlterConfigsResponse:
    async def alter(resource: incremental_request.AlterConfigsResource) -> None:
        operations = _check_unique(resource.configs).values()
        if resource.resource_type in (GROUP, BROKER):
            plain = {each.name: _plain(each) for each in operations}
            await _change_plain(context, resource, plain, request.validate_only)
            return
        await _change(
            context, resource, lambda topic: _changes(topic, operations), request.validate_only
        )

    result = incremental_response.AlterConfigsResourceResponse
    responses = await _alter(context, request.resources, alter, result)
    return build(incremental_response.IncrementalAlterConfigsResponse, responses=responses)


async def _alter(
    context: Context, resources: Iterable[Any], alter: Callable[[Any], Any], result: type[T]
) -> tuple[T, ...]:
    """One answer for each resource."""
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    answers = []
    for resource in resources:
        refusal: dict[str, Any] = {"error_message": None}
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("the request names this resource more than once")
            _demand(context, Operation.ALTER_CONFIGS, resource)
            await alter(resource)
        except GoQueueError as error:
            refusal = {"error_code": kafka_code(error), "error_message": str(error)}
        about = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
        answers.append(build(result, **about, **refusal))
    return tuple(answers)


async def _change(
    context: Context,
    resource: Any,
    changes_of: Callable[[Topic], Changes],
    validate_only: bool,
    *,
    replace: bool = False,
) -> None:
    topic = _alterable(context.broker, resource.resource_type, resource.resource_name)
    await context.broker.change_settings(
        topic.name, changes_of(topic), replace=replace, validate_only=validate_only
    )


async def _change_plain(
    context: Context,
    resource: Any,
    changes: Changes,
    validate_only: bool,
    *,
    replace: bool = False,
) -> None:
    """Of a group or a node, whose settings are no lists."""
    change = change_group if resource.resource_type == GROUP else change_broker
    await change(
        context.broker,
        resource.resource_name,
        changes,
        replace=replace,
        validate_only=validate_only,
    )


def _plain(change: incremental_request.AlterableConfig) -> str | None:
    """The new value of a setting that is no list; None for its default."""
    operation = int(change.config_operation)
    if operation == ConfigOperation.DELETE:
        return None
    if operation != ConfigOperation.SET:
        raise InvalidSetting(f"{change.name} is not a list: it can be set or unset")
    if change.value is None:
        raise InvalidRequest(f"{change.name} has no value")
    return change.value


def _alterable(broker: Broker, resource_type: int, name: str) -> Topic:
    if resource_type != TOPIC:
        raise _unknown(resource_type)
    checked = topic_name(name)
    refuse_internal(checked)
    return broker.topic(checked)


def _check_unique(entries: Collection[Any]) -> dict[str, Any]:
    named = {entry.name: entry for entry in entries}
    if len(named) < len(entries):
        raise InvalidRequest("the request names a setting more than once")
    return named


def _changes(topic: Topic, operations: Iterable[incremental_request.AlterableConfig]) -> Changes:
    return {each.name: _apply_operation(topic, each) for each in operations}


def _apply_operation(topic: Topic, change: incremental_request.AlterableConfig) -> str | None:
    """The setting's new value; None for its default."""
    name, value, operation = change.name, change.value, int(change.config_operation)
    if operation == ConfigOperation.DELETE:
        return None
    if value is None:
        raise InvalidRequest(f"{name} has no value")
    match operation:
        case ConfigOperation.SET:
            return value
        case ConfigOperation.APPEND:
            return ",".join(sorted(_list_value(topic, name) | _items(value)))
        case ConfigOperation.SUBTRACT:
            return ",".join(sorted(_list_value(topic, name) - _items(value)))
        case _:
            raise InvalidRequest(f"{name}: operation {operation} is none of 0 to 3")


def _list_value(topic: Topic, name: str) -> set[str]:
    setting = SETTINGS.get(name)
    if setting is None or setting.kind != "list":
        raise InvalidSetting(f"{name} is not a list: nothing can be added or taken away")
    return _items(setting_text(getattr(topic.settings, setting.field)))


def _items(text: str) -> set[str]:
    return {part.strip() for part in text.split(",") if part.strip()}
