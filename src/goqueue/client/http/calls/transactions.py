"""Every request about transactions."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from goqueue.api.transactions import (
    ApplicationBody,
    AttemptStarted,
    Decided,
    RunStarted,
    Status,
    TransactionBody,
    TransactionList,
)
from goqueue.client.http.calls.call import Anything, Call, change, get, nothing, path_of, post

T = TypeVar("T")


def transactions(*, state: str | None = None, also_idle: bool = False) -> Call[TransactionList]:
    query = {"state": state or None, "all": "true" if also_idle else None}
    return get("/transactions", TransactionList, query)


def transaction(transactional_id: str) -> Call[TransactionBody]:
    query = {"transactional_id": transactional_id}
    return get("/transactions/describe", TransactionBody, query)


def abort_transaction(transactional_id: str) -> Call[Status]:
    body = {"transactional_id": transactional_id}
    return post("/transactions/force-abort", Status, body, is_repeatable=True)


# --- group transactions: many producers, one decision ---------------------------------------------


class Member(msgspec.Struct, frozen=True):
    """A transaction that a decision is to commit."""

    transactional_id: str
    producer_id: int
    epoch: int


def describe_application(application: str) -> Call[ApplicationBody]:
    return get(_path(application), ApplicationBody)


def start_run(application: str, name: str) -> Call[RunStarted]:
    """`name` tells the run apart from all others, so that it may be started again and again."""
    return post(_path(application, "runs"), RunStarted, {"name": name}, is_repeatable=True)


def start_attempt(
    application: str, *, version: int, run: int, task: int, attempt: int, timeout_ms: int
) -> Call[AttemptStarted]:
    body = {
        "version": version,
        "run": run,
        "task": task,
        "attempt": attempt,
        "timeout_ms": timeout_ms,
    }
    return post(_path(application, "attempts"), AttemptStarted, body, is_repeatable=True)


def decide(
    application: str, *, version: int, run: int, members: Sequence[Member], contents: str = ""
) -> Call[Decided]:
    """Commit all members, by one record; `contents` tells a repetition from another version."""
    body = {"version": version, "run": run, "members": members, "contents": contents}
    return post(_path(application, "decide"), Decided, body, is_repeatable=True)


def abort_version(application: str, *, version: int, run: int) -> Call[None]:
    """Abort every attempt of a version; does nothing once that is decided."""
    body: dict[str, Any] = {"version": version, "run": run}
    return post(_path(application, "abort"), Anything, body, is_repeatable=True).then(nothing)


def retire_application(application: str) -> Call[None]:
    """Forget an application that will not come back."""
    return change("DELETE", _path(application), Anything, is_repeatable=True).then(nothing)


def _path(application: str, *verb: str) -> str:
    return path_of("transactions", "groups", application, *verb)
