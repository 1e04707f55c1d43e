"""What administrators change over Kafka's protocol, for the audit log.

Each API names what it changed, what came of it, and the details, without secrets.  An entry that
was refused for want of a permission is left out: the refusal is on record already.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from goqueue.security import Operation, Pattern, Permission, ResourceType
from goqueue.server.kafka.scram_users import mechanism_name
from goqueue.wire.apis import ApiKey

CHANGES_MAX: Final = 1_000  # of one request that are on record one by one
_REFUSED: Final = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
_CONFIG_RESOURCES: Final = {2: "topic", 4: "node", 32: "group"}
_CONFIG_OPERATIONS: Final = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


class Change(NamedTuple):
    resource: str
    code: ErrorCode = ErrorCode.none
    details: str = ""

    @property
    def result(self) -> str:
        return "ok" if self.code is ErrorCode.none else self.code.name


def changes_of(api_key: int, request: Any, response: Any) -> Iterator[Change]:
    if getattr(request, "validate_only", False):
        return
    for number, change in enumerate(CHANGES[api_key](request, response)):
        if number == CHANGES_MAX:
            yield Change("", details=f"more than {CHANGES_MAX} changes in one request")
            return
        if change.code not in _REFUSED:
            yield change


# --- topics and settings --------------------------------------------------------------------------


def _create_topics(request: Any, response: Any) -> Iterator[Change]:
    asked = {each.name: each for each in request.topics}
    for each in response.topics:
        settings = {config.name: config.value for config in asked[each.name].configs}
        text = f"{asked[each.name].num_partitions} partitions" + (
            f" {settings}" if settings else ""
        )
        yield Change(f"topic:{each.name}", each.error_code, text)


def _delete_topics(_: Any, response: Any) -> Iterator[Change]:
    for each in response.responses:
        yield Change(f"topic:{each.name or each.topic_id}", each.error_code)


def _create_partitions(request: Any, response: Any) -> Iterator[Change]:
    counts = {each.name: each.count for each in request.topics}
    for each in response.results:
        details = f"{counts.get(each.name)} partitions"
        yield Change(f"topic:{each.name}", each.error_code, details)


def _alter_configs(request: Any, response: Any) -> Iterator[Change]:
    asked = {(each.resource_type, each.resource_name): each.configs for each in request.resources}
    for each in response.responses:
        configs = asked.get((each.resource_type, each.resource_name), ())
        kind = _CONFIG_RESOURCES.get(each.resource_type, str(each.resource_type))
        details = ", ".join(_describe_config(config) for config in configs)
        yield Change(f"{kind}:{each.resource_name}", each.error_code, details)


def _describe_config(config: Any) -> str:
    operation = _CONFIG_OPERATIONS.get(getattr(config, "config_operation", 0), "set")
    return f"{operation} {config.name}={config.value}"


def _delete_records(request: Any, response: Any) -> Iterator[Change]:
    offsets = {
        (topic.name, each.partition_index): each.offset
        for topic in request.topics
        for each in topic.partitions
    }
    for topic in response.topics:
        for each in topic.partitions:
            before = offsets.get((topic.name, each.partition_index))
            resource = f"topic:{topic.name}-{each.partition_index}"
            yield Change(resource, each.error_code, f"records before offset {before}")


# --- permissions and passwords --------------------------------------------------------------------


def _create_acls(request: Any, response: Any) -> Iterator[Change]:
    for asked, result in zip(request.creations, response.results, strict=False):
        resource = _resource(asked.resource_type, asked.resource_name)
        yield Change(resource, result.error_code, _describe_acl(asked, asked.resource_pattern_type))


def _delete_acls(_: Any, response: Any) -> Iterator[Change]:
    for result in response.filter_results:
        if result.error_code is not ErrorCode.none:
            yield Change("acls", result.error_code)
        for each in result.matching_acls:
            resource = _resource(each.resource_type, each.resource_name)
            yield Change(resource, each.error_code, _describe_acl(each, each.pattern_type))


def _resource(kind: int, name: str) -> str:
    known = {each.value: each.name.lower() for each in ResourceType}
    return f"{known.get(kind, kind)}:{name}"


def _describe_acl(acl: Any, pattern: int) -> str:
    words = (
        _word(Permission, acl.permission_type),
        acl.principal,
        _word(Operation, acl.operation),
        _word(Pattern, pattern),
    )
    return f"{' '.join(words)} from {acl.host}"


def _word(kind: Any, number: int) -> str:
    return next((each.name.lower() for each in kind if each.value == number), str(number))


def _alter_users(request: Any, response: Any) -> Iterator[Change]:
    done: dict[str, list[str]] = {}
    for verb, some in (("set", request.upsertions), ("delete", request.deletions)):
        for each in some:
            done.setdefault(each.name, []).append(f"{verb} {mechanism_name(each.mechanism)}")
    for each in response.results:
        yield Change(f"user:{each.user}", each.error_code, ", ".join(done.get(each.user, ())))


def _alter_quotas(request: Any, response: Any) -> Iterator[Change]:
    for asked, result in zip(request.entries, response.entries, strict=False):
        entity = ",".join(f"{each.entity_type}={each.entity_name}" for each in asked.entity)
        details = ", ".join(
            f"delete {each.key}" if each.remove else f"{each.key}={each.value}"
            for each in asked.ops
        )
        yield Change(f"quota:{entity}", result.error_code, details)


# --- groups and the cluster -----------------------------------------------------------------------


def _delete_groups(_: Any, response: Any) -> Iterator[Change]:
    for each in response.results:
        yield Change(f"group:{each.group_id}", each.error_code)


def _of_group(request: Any, response: Any) -> Iterator[Change]:
    """Offsets of a group; `name` is called otherwise for share groups."""
    names = [getattr(each, "name", None) or each.topic_name for each in request.topics]
    yield Change(f"group:{request.group_id}", response.error_code, f"offsets of {', '.join(names)}")


def _reassign(request: Any, response: Any) -> Iterator[Change]:
    if response.error_code is not ErrorCode.none:
        yield Change("cluster", response.error_code)
    wanted = {
        (topic.name, each.partition_index): each.replicas
        for topic in request.topics
        for each in topic.partitions
    }
    for topic in response.responses:
        for each in topic.partitions:
            replicas = wanted.get((topic.name, each.partition_index))
            details = "cancel" if replicas is None else f"replicas {list(replicas)}"
            resource = f"topic:{topic.name}-{each.partition_index}"
            yield Change(resource, each.error_code, details)


def _elect(_: Any, response: Any) -> Iterator[Change]:
    if response.error_code is not ErrorCode.none:
        yield Change("cluster", response.error_code)
    for topic in response.replica_election_results:
        for each in topic.partition_result:
            yield Change(f"topic:{topic.topic}-{each.partition_id}", each.error_code)


def _features(request: Any, response: Any) -> Iterator[Change]:
    levels = (f"{each.feature}={each.max_version_level}" for each in request.feature_updates)
    yield Change("features", response.error_code, ", ".join(levels))


def _markers(_: Any, response: Any) -> Iterator[Change]:
    for marker in response.markers:
        for topic in marker.topics:
            for each in topic.partitions:
                resource = f"topic:{topic.name}-{each.partition_index}"
                yield Change(resource, each.error_code, f"producer {marker.producer_id}")


def _log_dirs(_: Any, response: Any) -> Iterator[Change]:
    for topic in response.results:
        for each in topic.partitions:
            yield Change(f"topic:{topic.topic_name}-{each.partition_index}", each.error_code)


CHANGES: Final[Mapping[int, Callable[[Any, Any], Iterable[Change]]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_users,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _of_group,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _of_group,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _of_group,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _reassign,
    ApiKey.ELECT_LEADERS: _elect,
    ApiKey.UPDATE_FEATURES: _features,
    ApiKey.WRITE_TXN_MARKERS: _markers,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _log_dirs,
}
