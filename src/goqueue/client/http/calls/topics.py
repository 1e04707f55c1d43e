"""Every request about the server, topics and messages."""

from collections.abc import Mapping
from typing import Any

from goqueue.api.messages import MessagePage, PublishResponse, PublishResult, TopicMessages
from goqueue.api.server import BackupBody, HealthBody, LogLevel, VersionBody
from goqueue.api.topics import (
    CompactedBody,
    PartitionsAdded,
    Sealed,
    SettingInfo,
    SettingList,
    TopicCreated,
    TopicDetail,
    TopicList,
)
from goqueue.client.http.calls.call import Anything, Call, change, get, nothing, path_of, post
from goqueue.client.http.messages import Publishables, as_messages, to_wire
from goqueue.client.http.outcomes import all_published

BACKUP_SECONDS_MAX = 3_600.0
COMPACTION_SECONDS_MAX = 3_600.0  # of one partition


# --- the server -----------------------------------------------------------------------------------


def version() -> Call[VersionBody]:
    return get("/version", VersionBody)


def health(*, verbose: bool = False) -> Call[HealthBody]:
    """Whether the server serves, and if not, why."""
    query = {"verbose": "true" if verbose else None}
    return get("/readyz", HealthBody, query, also_answers=(503,))


def stats() -> Call[dict[str, Any]]:
    return get("/stats", dict[str, Any])


def metrics() -> Call[str]:
    """Of the server that is asked, in Prometheus' text format."""
    return get("/metrics", str)


def log_level() -> Call[LogLevel]:
    return get("/admin/log-level", LogLevel)


def set_log_level(level: str) -> Call[LogLevel]:
    return change("PUT", "/admin/log-level", LogLevel, {"level": level}, is_repeatable=True)


def take_backup() -> Call[BackupBody]:
    return post("/admin/backups", BackupBody, wait_seconds=BACKUP_SECONDS_MAX)


def remove_backup(backup_id: str) -> Call[None]:
    path = path_of("admin", "backups", backup_id)
    return change("DELETE", path, Anything, is_repeatable=True).then(nothing)


# --- topics ---------------------------------------------------------------------------------------


def topics(after: str | None = None) -> Call[TopicList]:
    return get("/topics", TopicList, {"verbose": "true", "after": after or None})


def topic(name: str) -> Call[TopicDetail]:
    return get(path_of("topics", name), TopicDetail)


def create_topic(
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    settings: Mapping[str, str] | None = None,
) -> Call[TopicCreated]:
    """What is not given is the server's default."""
    body = {"name": name, "settings": dict(settings or {}), "num_partitions": partitions}
    if replication_factor is not None:  # older servers do not know it
        body["replication_factor"] = replication_factor
    return post("/topics", TopicCreated, body)


def delete_topic(name: str) -> Call[None]:
    return change("DELETE", path_of("topics", name), Anything).then(nothing)


def settings(name: str) -> Call[dict[str, SettingInfo]]:
    return get(path_of("topics", name, "settings"), SettingList).then(_settings)


def change_settings(name: str, changes: Mapping[str, str | None]) -> Call[dict[str, SettingInfo]]:
    """Set settings of a topic, or with None go back to the default; gives all of them."""
    body = {
        "set": {key: value for key, value in changes.items() if value is not None},
        "unset": [key for key, value in changes.items() if value is None],
    }
    path = path_of("topics", name, "settings")
    return change("PATCH", path, SettingList, body, is_repeatable=True).then(_settings)


def _settings(found: SettingList) -> dict[str, SettingInfo]:
    return found.settings


def add_partitions(name: str, count: int) -> Call[PartitionsAdded]:
    """Grow the topic to `count` partitions in all."""
    return post(path_of("topics", name, "partitions"), PartitionsAdded, {"count": count})


def seal_compaction(name: str, partition: int) -> Call[Sealed]:
    path = path_of("topics", name, "partitions", partition, "compaction", "seal")
    return post(path, Sealed, is_repeatable=True)


def compact(
    name: str, partition: int, sealed: Sealed, first: int, superseded: str, *, dry_run: bool
) -> Call[CompactedBody]:
    """`superseded`: a bit an offset from `first`, compressed with zlib, in base64."""
    body = {
        "topic_id": sealed.topic_id,
        "first_offset": first,
        "end_offset": sealed.end_offset,
        "superseded": superseded,
        "dry_run": dry_run,
    }
    path = path_of("topics", name, "partitions", partition, "compaction")
    seconds = COMPACTION_SECONDS_MAX
    return post(path, CompactedBody, body, is_repeatable=True, wait_seconds=seconds)


# --- messages -------------------------------------------------------------------------------------


def publish(topic: str, messages: Publishables) -> Call[list[PublishResult]]:
    """Where each message went, in order; raises when any of them was refused.

    `publish("orders", ["text", b"bytes", {"any": "JSON"}, Message("with a key", key="k")])`

    Never sent twice: when the answer is lost, `NoAnswer` says that the outcome is not known.
    """
    return publish_each(topic, messages).then(lambda body: all_published(body.results))


def publish_each(topic: str, messages: Publishables) -> Call[PublishResponse]:
    body = {"messages": [to_wire(message) for message in as_messages(messages)]}
    return post(path_of("topics", topic, "messages"), PublishResponse, body)


def fetch(
    topic: str,
    partition: int,
    *,
    offset: int | str | None = None,
    from_time: int | None = None,
    to_time: int | None = None,
    limit: int | None = None,
    wait_ms: int = 0,
) -> Call[MessagePage]:
    """Times are wall-clock milliseconds; `from_time` stands in for an offset."""
    query = {
        "offset": offset,
        "from_time": from_time,
        "to_time": to_time,
        "limit": limit,
        "wait": wait_ms or None,
    }
    path = path_of("topics", topic, "partitions", partition, "messages")
    return get(path, MessagePage, query, wait_seconds=wait_ms / 1000)


def read_topic(
    name: str,
    *,
    cursor: str | None = None,
    start: int | str | None = None,
    from_time: int | None = None,
    limit: int | None = None,
    wait_ms: int = 0,
) -> Call[TopicMessages]:
    """All partitions in one request; `cursor` is that of the answer before."""
    query = {
        "cursor": cursor,
        "start": start,
        "from_time": from_time,
        "limit": limit,
        "wait": wait_ms or None,
    }
    path = path_of("topics", name, "messages")
    return get(path, TopicMessages, query, wait_seconds=wait_ms / 1000)


def delete_messages(topic: str, partition: int, before: int) -> Call[None]:
    """Delete what lies before an offset."""
    path = path_of("topics", topic, "partitions", partition, "messages")
    query = {"before": str(before)}
    return change("DELETE", path, Anything, query=query, is_repeatable=True).then(nothing)
