"""Every request about consumer groups."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from goqueue.api.groups import (
    GroupDetail,
    GroupLag,
    GroupList,
    GroupOffset,
    GroupOffsets,
    MembershipBody,
    MovedOffset,
    OffsetsReset,
)
from goqueue.client.http.calls.call import Anything, Call, change, get, nothing, path_of, post

T = TypeVar("T")
ResetTo = Literal["earliest", "latest", "offset", "timestamp", "shift"]


# --- for operators --------------------------------------------------------------------------------


def groups(after: str | None = None) -> Call[GroupList]:
    return get("/groups", GroupList, {"after": after or None})


def group(name: str) -> Call[GroupDetail]:
    return get(path_of("groups", name), GroupDetail)


def delete_group(name: str) -> Call[None]:
    """Only one without members."""
    return change("DELETE", path_of("groups", name), Anything).then(nothing)


def group_offsets(name: str) -> Call[list[GroupOffset]]:
    path = path_of("groups", name, "offsets")
    return get(path, GroupOffsets).then(lambda body: body.offsets)


def group_lag(name: str) -> Call[GroupLag]:
    return get(path_of("groups", name, "lag"), GroupLag)


def reset_offsets(
    name: str,
    to: ResetTo,
    *,
    value: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
    dry_run: bool = False,
) -> Call[list[MovedOffset]]:
    """Move a group's offsets; `value` is the offset, epoch milliseconds, or how far."""
    body = {"to": to, "value": value, "topic": topic, "partition": partition, "dry_run": dry_run}
    path = path_of("groups", name, "offsets", "reset")
    call = post(path, OffsetsReset, body, is_repeatable=to != "shift")
    return call.then(lambda body: body.offsets)


# --- for members ----------------------------------------------------------------------------------


def join_group(
    name: str, member_id: str, topics: Sequence[str], settings: Mapping[str, Any]
) -> Call[MembershipBody]:
    """Who names itself can ask twice and is still one member."""
    body = [("topics", list(topics)), ("member_id", member_id)]
    path = path_of("groups", name, "join")
    return post(path, MembershipBody, {**settings, **dict(body)}, is_repeatable=bool(member_id))


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
    """With `seen` a lost answer is repeated, so the call may be retried."""
    query = {
        "member_id": member_id,
        "generation": generation,
        "seen": seen,
        "limit": limit,
        "timeout": wait_ms,
    }
    return get(
        path_of("groups", name, "poll"),
        result,
        query,
        is_repeatable=seen is not None,
        wait_seconds=wait_ms / 1000,
    )


def heartbeat(name: str, member_id: str, generation: int) -> Call[MembershipBody]:
    body = {"member_id": member_id, "generation": generation}
    return post(path_of("groups", name, "heartbeat"), MembershipBody, body, is_repeatable=True)


def commit_offsets(
    name: str,
    offsets: Mapping[str, Mapping[int, int]],
    *,
    member_id: str = "",
    generation: int | None = None,
) -> Call[None]:
    body: dict[str, Any] = {"offsets": offsets}
    if member_id:
        body |= {"member_id": member_id, "generation": generation}
    path = path_of("groups", name, "offsets")
    return post(path, Anything, body, is_repeatable=True).then(nothing)


def leave_group(name: str, member_id: str, *, commit: bool = True) -> Call[None]:
    body = {"member_id": member_id, "commit": commit}
    return post(path_of("groups", name, "leave"), Anything, body).then(nothing)
