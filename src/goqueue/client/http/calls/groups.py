"""Every request about consumer groups, as data."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from goqueue.api.groups import (
    GroupDetail,
    GroupLag,
    GroupList,
    GroupOffsets,
    MembershipBody,
    OffsetsReset,
)
from goqueue.client.http.calls.topics import Call
from goqueue.client.http.results import Anything

T = TypeVar("T")
ResetTo = Literal["earliest", "latest", "offset", "timestamp", "shift"]


# --- for operators --------------------------------------------------------------------------------


def groups(after: str | None = None) -> Call[GroupList]:
    query = {"after": after} if after else {}
    return Call(method="GET", path="/groups", result=GroupList, query=query, is_repeatable=True)


def group(name: str) -> Call[GroupDetail]:
    return Call(method="GET", path=_group(name), result=GroupDetail, is_repeatable=True)


def delete_group(name: str) -> Call[Anything]:
    return Call(method="DELETE", path=_group(name), result=Anything)


def group_offsets(name: str) -> Call[GroupOffsets]:
    path = _group(name, "offsets")
    return Call(method="GET", path=path, result=GroupOffsets, is_repeatable=True)


def group_lag(name: str) -> Call[GroupLag]:
    return Call(method="GET", path=_group(name, "lag"), result=GroupLag, is_repeatable=True)


def reset_offsets(
    name: str,
    to: ResetTo,
    *,
    value: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
    dry_run: bool = False,
) -> Call[OffsetsReset]:
    body = {"to": to, "value": value, "topic": topic, "partition": partition, "dry_run": dry_run}
    return Call(
        method="POST",
        path=_group(name, "offsets", "reset"),
        result=OffsetsReset,
        body=_json({key: each for key, each in body.items() if each is not None}),
        is_repeatable=to != "shift",
    )


# --- for members ----------------------------------------------------------------------------------


def join_group(
    name: str, member_id: str, topics: Sequence[str], settings: Mapping[str, Any]
) -> Call[MembershipBody]:
    """Who names itself can ask twice and is still one member."""
    body = {**settings, "topics": list(topics), "member_id": member_id}
    return Call(
        method="POST",
        path=_group(name, "join"),
        result=MembershipBody,
        body=_json(body),
        is_repeatable=bool(member_id),
    )


def poll_group(
    name: str,
    member_id: str,
    generation: int,
    *,
    result: type[T],
    seen: int | None = None,
    limit: int | None = None,
    wait_ms: int = 0,
) -> Call[T]:
    """With `seen` an answer that was lost comes again, so the call may be sent again too."""
    query = {
        "member_id": member_id,
        "generation": generation,
        "seen": seen,
        "limit": limit,
        "timeout": wait_ms,
    }
    return Call(
        method="GET",
        path=_group(name, "poll"),
        result=result,
        query={key: str(value) for key, value in query.items() if value is not None},
        is_repeatable=seen is not None,
        wait_seconds=wait_ms / 1000,
    )


def heartbeat(name: str, member_id: str, generation: int) -> Call[MembershipBody]:
    return Call(
        method="POST",
        path=_group(name, "heartbeat"),
        result=MembershipBody,
        body=_json({"member_id": member_id, "generation": generation}),
        is_repeatable=True,
    )


def commit_offsets(
    name: str,
    offsets: Mapping[str, Mapping[int, int]],
    *,
    member_id: str = "",
    generation: int | None = None,
) -> Call[Anything]:
    body: dict[str, Any] = {"offsets": offsets}
    if member_id:
        body |= {"member_id": member_id, "generation": generation}
    return Call(
        method="POST",
        path=_group(name, "offsets"),
        result=Anything,
        body=_json(body),
        is_repeatable=True,
    )


def leave_group(name: str, member_id: str, *, commit: bool = True) -> Call[Anything]:
    return Call(
        method="POST",
        path=_group(name, "leave"),
        result=Anything,
        body=_json({"member_id": member_id, "commit": commit}),
    )


def _group(name: str, *rest: str) -> str:
    return "/".join(("/groups", quote(name, safe=""), *rest))


def _json(body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(body)
