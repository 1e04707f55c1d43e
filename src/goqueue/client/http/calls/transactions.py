"""Requests about transactions, as data; see `calls`."""

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from goqueue.client.http.calls.topics import Call
from goqueue.client.http.messages import WireTime
from goqueue.client.http.results import Anything

T = TypeVar("T")


class TransactionPlace(msgspec.Struct, frozen=True):
    topic: str
    partition: int


class TransactionInfo(msgspec.Struct, frozen=True):
    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    transaction_id: str | None = None
    start_time: WireTime = None
    timeout_ms: int = 0
    partitions: list[TransactionPlace] = []
    groups: list[str] = []
    acks: int = 0


class TransactionPage(msgspec.Struct, frozen=True):
    transactions: list[TransactionInfo]


class TransactionStatus(msgspec.Struct, frozen=True):
    status: str


def transactions(*, state: str | None = None, also_idle: bool = False) -> Call[TransactionPage]:
    query = {"state": state} if state else {}
    if also_idle:
        query["all"] = "true"
    return Call(
        method="GET",
        path="/transactions",
        result=TransactionPage,
        query=query,
        is_repeatable=True,
    )


def transaction(transactional_id: str) -> Call[TransactionInfo]:
    return Call(
        method="GET",
        path="/transactions/describe",
        result=TransactionInfo,
        query={"transactional_id": transactional_id},
        is_repeatable=True,
    )


def abort_transaction(transactional_id: str) -> Call[TransactionStatus]:
    return Call(
        method="POST",
        path="/transactions/force-abort",
        result=TransactionStatus,
        body=msgspec.json.encode({"transactional_id": transactional_id}),
        is_repeatable=True,
    )


# --- group transactions: many producers, one decision ---------------------------------------------


class Run(msgspec.Struct, frozen=True):
    """A run of an application; those before it are fenced."""

    run: int
    last_version: int
    """The last version that was decided; -1 for none."""


class ApplicationInfo(msgspec.Struct, frozen=True):
    application: str
    run: int
    """The newest one; -1 for none."""
    last_version: int
    """The last version that was decided; -1 for none."""


class Member(msgspec.Struct, frozen=True):
    """A transaction that a decision is to commit."""

    transactional_id: str
    producer_id: int
    epoch: int


class Attempt(msgspec.Struct, frozen=True):
    """A producer of its own for one attempt at one task of a version."""

    already_decided: bool
    """The version is decided: what the attempt would write is there, and nothing else is said."""
    transactional_id: str | None = None
    producer_id: int | None = None
    epoch: int | None = None


class Decided(msgspec.Struct, frozen=True):
    version: int
    already_decided: bool
    """It was decided before; the members given are aborted."""


def describe_application(application: str) -> Call[ApplicationInfo]:
    path = f"/transactions/groups/{quote(application, safe='')}"
    return Call(method="GET", path=path, result=ApplicationInfo, is_repeatable=True)


def start_run(application: str, name: str) -> Call[Run]:
    """`name` tells the run apart from all others, so that it may be started again and again."""
    return _group_call(application, "runs", Run, {"name": name})


def start_attempt(
    application: str, *, version: int, run: int, task: int, attempt: int, timeout_ms: int
) -> Call[Attempt]:
    body = {
        "version": version,
        "run": run,
        "task": task,
        "attempt": attempt,
        "timeout_ms": timeout_ms,
    }
    return _group_call(application, "attempts", Attempt, body)


def decide(application: str, *, version: int, run: int, members: Sequence[Member]) -> Call[Decided]:
    """Commit all members, by one record."""
    body = {"version": version, "run": run, "members": members}
    return _group_call(application, "decide", Decided, body)


def abort_version(application: str, *, version: int, run: int) -> Call[Anything]:
    """Abort every attempt of a version; does nothing once that is decided."""
    return _group_call(application, "abort", Anything, {"version": version, "run": run})


def retire_application(application: str) -> Call[Anything]:
    """Forget an application that will not come back."""
    return Call(
        method="DELETE",
        path=f"/transactions/groups/{quote(application, safe='')}",
        result=Anything,
        is_repeatable=True,
    )


def _group_call(application: str, verb: str, result: type[T], body: dict[str, Any]) -> Call[T]:
    return Call(
        method="POST",
        path=f"/transactions/groups/{quote(application, safe='')}/{verb}",
        result=result,
        body=msgspec.json.encode(body),
        is_repeatable=True,
    )
