"""Requests about transactions, as data; see `calls`."""

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

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
from goqueue.client.http.calls.topics import Call
from goqueue.client.http.results import Anything

T = TypeVar("T")


def transactions(*, state: str | None = None, also_idle: bool = False) -> Call[TransactionList]:
    query = {"state": state} if state else {}
    if also_idle:
        query["all"] = "true"
    return Call(
        method="GET",
        path="/transactions",
        result=TransactionList,
        query=query,
        is_repeatable=True,
    )


def transaction(transactional_id: str) -> Call[TransactionBody]:
    return Call(
        method="GET",
        path="/transactions/describe",
        result=TransactionBody,
        query={"transactional_id": transactional_id},
        is_repeatable=True,
    )


def abort_transaction(transactional_id: str) -> Call[Status]:
    return Call(
        method="POST",
        path="/transactions/force-abort",
        result=Status,
        body=msgspec.json.encode({"transactional_id": transactional_id}),
        is_repeatable=True,
    )


# --- group transactions: many producers, one decision ---------------------------------------------


class Member(msgspec.Struct, frozen=True):
    """A transaction that a decision is to commit."""

    transactional_id: str
    producer_id: int
    epoch: int


def describe_application(application: str) -> Call[ApplicationBody]:
    path = f"/transactions/groups/{quote(application, safe='')}"
    return Call(method="GET", path=path, result=ApplicationBody, is_repeatable=True)


def start_run(application: str, name: str) -> Call[RunStarted]:
    """`name` tells the run apart from all others, so that it may be started again and again."""
    return _group_call(application, "runs", RunStarted, {"name": name})


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
    return _group_call(application, "attempts", AttemptStarted, body)


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
