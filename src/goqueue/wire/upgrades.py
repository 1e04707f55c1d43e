"""What moved between versions of a message, and how to move it back.

Fields that only came or went need nothing here: `codec` matches them by name.  This module has the
others: a single value that became a list (one group, then several), a name that changed, a number
whose meaning did.

An upgrade takes a request read into kio's class of its own version and gives the newest shape.  A
downgrade takes a response of the newest shape and gives an object for kio's class of the old
version.  The tables say up to which version each applies.

In the oldest versions an error of the whole request has no field, and belongs into every partition:
a handler which names the partitions of the request in its answer, beside the error, is understood
by all versions.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from goqueue.wire import shapes
from goqueue.wire.apis import ApiKey
from goqueue.wire.codec import defaults_of, schema_of


class Moved(NamedTuple):
    """A function, and the last version that needs it."""

    last_version: int
    move: Callable[[Any, type[Any]], Any]


# --- requests ---------------------------------------------------------------------------------


def _metadata_request(old: Any, newest: type[Any]) -> Any:
    """In version 0 no topics meant all topics; since then null does, and none means none."""
    topic_class = _nested_type(newest, "topics")
    topics = tuple(_fill(topic_class, name=topic.name) for topic in old.topics or ())
    return _fill(newest, topics=topics or None)


def _find_coordinator_request(old: Any, newest: type[Any]) -> Any:
    key_type = getattr(old, "key_type", 0)  # version 0 knows groups alone
    return _fill(newest, key_type=key_type, coordinator_keys=(old.key,))


def _join_group_request(old: Any, newest: type[Any]) -> Any:
    """In version 0 the session timeout was the rebalance timeout as well."""
    fields = {name: getattr(old, name) for name in schema_of(type(old)) if name != "protocols"}
    protocol_class = _nested_type(newest, "protocols")
    protocols = tuple(
        _fill(protocol_class, name=protocol.name, metadata=protocol.metadata)
        for protocol in old.protocols
    )
    return _fill(newest, **fields, rebalance_timeout=old.session_timeout, protocols=protocols)


def _leave_group_request(old: Any, newest: type[Any]) -> Any:
    member_class = _nested_type(newest, "members")
    member = _fill(member_class, member_id=old.member_id)
    return _fill(newest, group_id=old.group_id, members=(member,))


def _delete_topics_request(old: Any, newest: type[Any]) -> Any:
    topic_class = _nested_type(newest, "topics")
    topics = tuple(_fill(topic_class, name=name) for name in old.topic_names)
    return _fill(newest, topics=topics, timeout=old.timeout)


def _offset_fetch_request(old: Any, newest: type[Any]) -> Any:
    topics = None
    if old.topics is not None:
        topics = tuple(
            _fill(
                shapes.OffsetFetchRequestTopic,
                name=topic.name,
                partition_indexes=topic.partition_indexes,
            )
            for topic in old.topics
        )
    group = _fill(shapes.OffsetFetchRequestGroup, group_id=old.group_id, topics=topics)
    return _fill(newest, groups=(group,), require_stable=getattr(old, "require_stable", False))


def _add_partitions_to_txn_request(old: Any, newest: type[Any]) -> Any:
    transaction_class = _nested_type(newest, "transactions")
    topic_class = _nested_type(transaction_class, "topics")
    transaction = _fill(
        transaction_class,
        transactional_id=old.v3_and_below_transactional_id,
        producer_id=old.v3_and_below_producer_id,
        producer_epoch=old.v3_and_below_producer_epoch,
        topics=tuple(
            _fill(topic_class, name=topic.name, partitions=topic.partitions)
            for topic in old.v3_and_below_topics
        ),
    )
    return _fill(newest, transactions=(transaction,))


REQUESTS: Final[dict[ApiKey, Moved]] = {
    ApiKey.METADATA: Moved(0, _metadata_request),
    ApiKey.OFFSET_FETCH: Moved(7, _offset_fetch_request),
    ApiKey.FIND_COORDINATOR: Moved(3, _find_coordinator_request),
    ApiKey.JOIN_GROUP: Moved(0, _join_group_request),
    ApiKey.LEAVE_GROUP: Moved(2, _leave_group_request),
    ApiKey.DELETE_TOPICS: Moved(5, _delete_topics_request),
    ApiKey.ADD_PARTITIONS_TO_TXN: Moved(3, _add_partitions_to_txn_request),
}


# --- responses --------------------------------------------------------------------------------


def _offset_fetch_response(newest: Any, old: type[Any]) -> Any:
    (group,) = newest.groups
    topics = group.topics
    if "error_code" not in schema_of(old) and group.error_code != ErrorCode.none:
        topics = tuple(_with_error(topic, group.error_code) for topic in topics)
    return _pick(
        old, throttle_time=newest.throttle_time, topics=topics, error_code=group.error_code
    )


def _with_error(topic: Any, error_code: ErrorCode) -> Any:
    partitions = (replace(partition, error_code=error_code) for partition in topic.partitions)
    return replace(topic, partitions=tuple(partitions))


def _find_coordinator_response(newest: Any, old: type[Any]) -> Any:
    (coordinator,) = newest.coordinators
    return _pick(
        old,
        throttle_time=newest.throttle_time,
        error_code=coordinator.error_code,
        error_message=coordinator.error_message,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _leave_group_response(newest: Any, old: type[Any]) -> Any:
    """One member left, and its error is the error."""
    error_code = newest.error_code
    if error_code == ErrorCode.none and newest.members:
        error_code = newest.members[0].error_code
    return _pick(old, throttle_time=newest.throttle_time, error_code=error_code)


def _describe_groups_response(newest: Any, old: type[Any]) -> Any:
    """Before version 6 a group that does not exist was a dead one, and no error."""
    groups = tuple(
        replace(group, error_code=ErrorCode.none, error_message=None, group_state="Dead")
        if group.error_code == ErrorCode.group_id_not_found
        else group
        for group in newest.groups
    )
    return _pick(old, throttle_time=newest.throttle_time, groups=groups)


def _add_partitions_to_txn_response(newest: Any, old: type[Any]) -> Any:
    (transaction,) = newest.results_by_transaction
    topics = transaction.topic_results
    if old.__version__ <= 1:
        topics = tuple(map(_unfence_topic, topics))
    return _pick(old, throttle_time=newest.throttle_time, results_by_topic_v3_and_below=topics)


def _without_fencing(newest: Any, _: type[Any]) -> Any:
    return _unfence(newest, "error_code")


def _unfence_topic(topic: Any) -> Any:
    results = (_unfence(result, "partition_error_code") for result in topic.results_by_partition)
    return replace(topic, results_by_partition=tuple(results))


def _unfence(result: Any, field: str) -> Any:
    """Older producers know a fenced one only by its epoch, and would not know the newer code."""
    if getattr(result, field) != ErrorCode.producer_fenced:
        return result
    return replace(result, **{field: ErrorCode.invalid_producer_epoch})


RESPONSES: Final[dict[ApiKey, Moved]] = {
    ApiKey.OFFSET_FETCH: Moved(7, _offset_fetch_response),
    ApiKey.FIND_COORDINATOR: Moved(3, _find_coordinator_response),
    ApiKey.LEAVE_GROUP: Moved(2, _leave_group_response),
    ApiKey.DESCRIBE_GROUPS: Moved(5, _describe_groups_response),
    ApiKey.ADD_PARTITIONS_TO_TXN: Moved(3, _add_partitions_to_txn_response),
    ApiKey.INIT_PRODUCER_ID: Moved(3, _without_fencing),
    ApiKey.ADD_OFFSETS_TO_TXN: Moved(1, _without_fencing),
    ApiKey.END_TXN: Moved(1, _without_fencing),
}


def _nested_type(cls: type[Any], name: str) -> type[Any]:
    """The class of a nested field's objects."""
    nested = schema_of(cls)[name].nested
    assert nested is not None, f"{cls.__name__}.{name} has no class of its own"
    return nested


def _fill(cls: type[Any], **fields: Any) -> Any:
    """An object of `cls`; the fields not given have their defaults."""
    return cls(**(defaults_of(cls) | fields))


def _pick(cls: type[Any], **fields: Any) -> Any:
    """An object of `cls` from those of `fields` that it has."""
    known = schema_of(cls)
    return _fill(cls, **{name: value for name, value in fields.items() if name in known})
