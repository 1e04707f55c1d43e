"""Every request that a client can make, as data: no I/O here.

A `Call` says what to send, what comes back, and whether sending it twice is the same as once.
`Client` and `AsyncClient` carry them out.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from goqueue.api.messages import MessagePage, PublishResponse, TopicMessages
from goqueue.api.server import BackupBody, HealthBody, LogLevel, VersionBody
from goqueue.api.topics import (
    CompactedBody,
    PartitionsAdded,
    Sealed,
    SettingList,
    TopicCreated,
    TopicDetail,
    TopicList,
)
from goqueue.client.http.messages import Publishables, as_messages, to_wire
from goqueue.client.http.results import Anything

T = TypeVar("T")
BACKUP_SECONDS_MAX = 3_600.0
COMPACTION_SECONDS_MAX = 3_600.0  # of one partition


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    method: str
    path: str
    result: type[T]
    query: dict[str, str] = {}
    body: bytes | None = None
    is_repeatable: bool = False
    also_answers: tuple[int, ...] = ()
    """Statuses beyond 2xx that come with a result and not with an error."""
    wait_seconds: float = 0.0
    """How long the server may take on purpose, beyond what a request may take anyway."""

    @property
    def is_long_poll(self) -> bool:
        """Whether it holds its connection on purpose."""
        return self.wait_seconds > 0


# --- the server -----------------------------------------------------------------------------------


def version() -> Call[VersionBody]:
    return _get("/version", VersionBody)


def health(*, verbose: bool = False) -> Call[HealthBody]:
    return Call(
        method="GET",
        path="/readyz",
        result=HealthBody,
        query={"verbose": "true"} if verbose else {},
        is_repeatable=True,
        also_answers=(503,),
    )


def stats() -> Call[dict[str, Any]]:
    return _get("/stats", dict[str, Any])


def log_level() -> Call[LogLevel]:
    return _get("/admin/log-level", LogLevel)


def set_log_level(level: str) -> Call[LogLevel]:
    return Call(
        method="PUT",
        path="/admin/log-level",
        result=LogLevel,
        body=_json({"level": level}),
        is_repeatable=True,
    )


def take_backup() -> Call[BackupBody]:
    return Call(
        method="POST",
        path="/admin/backups",
        result=BackupBody,
        wait_seconds=BACKUP_SECONDS_MAX,
    )


def remove_backup(backup_id: str) -> Call[Anything]:
    return Call(
        method="DELETE",
        path=f"/admin/backups/{quote(backup_id)}",
        result=Anything,
        is_repeatable=True,
    )


# --- topics ---------------------------------------------------------------------------------------


def topics(after: str | None = None) -> Call[TopicList]:
    query = {"verbose": "true"} | ({"after": after} if after else {})
    return Call(method="GET", path="/topics", result=TopicList, query=query, is_repeatable=True)


def topic(name: str) -> Call[TopicDetail]:
    return _get(_topic(name), TopicDetail)


def create_topic(
    name: str, partitions: int | None, settings: Mapping[str, str]
) -> Call[TopicCreated]:
    body: dict[str, Any] = {"name": name, "settings": dict(settings)}
    if partitions is not None:
        body["num_partitions"] = partitions
    return Call(method="POST", path="/topics", result=TopicCreated, body=_json(body))


def delete_topic(name: str) -> Call[Anything]:
    return Call(method="DELETE", path=_topic(name), result=Anything)


def settings(name: str) -> Call[SettingList]:
    return _get(_topic(name, "settings"), SettingList)


def change_settings(name: str, changes: Mapping[str, str | None]) -> Call[SettingList]:
    body = {
        "set": {key: value for key, value in changes.items() if value is not None},
        "unset": [key for key, value in changes.items() if value is None],
    }
    return Call(
        method="PATCH",
        path=_topic(name, "settings"),
        result=SettingList,
        body=_json(body),
        is_repeatable=True,
    )


def add_partitions(name: str, count: int) -> Call[PartitionsAdded]:
    """`count` is how many there are to be in all."""
    return Call(
        method="POST",
        path=_topic(name, "partitions"),
        result=PartitionsAdded,
        body=_json({"count": count}),
    )


def seal_compaction(name: str, partition: int) -> Call[Sealed]:
    return Call(
        method="POST",
        path=_topic(name, "partitions", str(partition), "compaction", "seal"),
        result=Sealed,
        is_repeatable=True,
    )


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
    return Call(
        method="POST",
        path=_topic(name, "partitions", str(partition), "compaction"),
        result=CompactedBody,
        body=_json(body),
        is_repeatable=True,
        wait_seconds=COMPACTION_SECONDS_MAX,
    )


# --- messages -------------------------------------------------------------------------------------


def publish(name: str, messages: Publishables) -> Call[PublishResponse]:
    body = {"messages": [to_wire(message) for message in as_messages(messages)]}
    return Call(
        method="POST", path=_topic(name, "messages"), result=PublishResponse, body=_json(body)
    )


def fetch(
    name: str,
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
    return Call(
        method="GET",
        path=_topic(name, "partitions", str(partition), "messages"),
        result=MessagePage,
        query={key: str(value) for key, value in query.items() if value is not None},
        is_repeatable=True,
        wait_seconds=wait_ms / 1000,
    )


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
    return Call(
        method="GET",
        path=_topic(name, "messages"),
        result=TopicMessages,
        query={key: str(value) for key, value in query.items() if value is not None},
        is_repeatable=True,
        wait_seconds=wait_ms / 1000,
    )


def delete_messages(name: str, partition: int, before: int) -> Call[Anything]:
    return Call(
        method="DELETE",
        path=_topic(name, "partitions", str(partition), "messages"),
        result=Anything,
        query={"before": str(before)},
        is_repeatable=True,
    )


def _get(path: str, result: type[T]) -> Call[T]:
    return Call(method="GET", path=path, result=result, is_repeatable=True)


def _topic(name: str, *rest: str) -> str:
    """The name may be any text: the server refuses a bad one in its own words."""
    return "/".join(("/topics", quote(name, safe=""), *rest))


def _json(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body)
