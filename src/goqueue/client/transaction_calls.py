"""Requests about transactions, as data; see `calls`."""

from urllib.parse import quote

import msgspec

from goqueue.client.calls import Call
from goqueue.client.messages import WireTime


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
    path = f"/transactions/ids/{quote(transactional_id, safe='')}"
    return Call(method="GET", path=path, result=TransactionInfo, is_repeatable=True)


def abort_transaction(transactional_id: str) -> Call[TransactionStatus]:
    path = f"/transactions/ids/{quote(transactional_id, safe='')}/abort"
    return Call(method="POST", path=path, result=TransactionStatus, is_repeatable=True)
