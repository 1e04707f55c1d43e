"""Whether everything arrived, to the message.  Nothing here uses Spark."""

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from demo.orders import BAD, Expected
from goqueue import Client
from goqueue.client import Received


class Check(msgspec.Struct, frozen=True):
    what: str
    wanted: object
    found: object

    @property
    def holds(self) -> bool:
        return bool(self.wanted == self.found)


def check_all(client: Client, expected: Expected, archived: int, replayed: str) -> list[Check]:
    source = _messages(client, "orders")
    return [
        Check("messages in orders", expected.messages, len(source)),
        *_check_totals(client, expected),
        *_check_large(client, expected),
        Check("unreadable ones set aside", expected.bad, _count(client, "orders.bad", BAD)),
        Check("messages in the archive", expected.messages, archived),
        Check("messages replayed", len(source), len(again := _messages(client, replayed))),
        Check("replayed as they were", True, _contents(source) == _contents(again)),
    ]


def _check_totals(client: Client, expected: Expected) -> list[Check]:
    """The last message of a key is its total."""
    last: dict[str, Any] = {}
    for message in _messages(client, "orders.per-minute"):
        last[_text(message.key)] = json.loads(_text(message.value), parse_float=Decimal)
    found = {key: (each["orders"], Decimal(each["amount"])) for key, each in last.items()}
    wrong = [key for key in expected.totals.keys() | found.keys()
             if expected.totals.get(key) != found.get(key)]  # fmt: skip
    return [
        Check(
            "orders in the totals",
            sum(number for number, _ in expected.totals.values()),
            sum(number for number, _ in found.values()),
        ),
        Check(f"totals that are wrong, of {len(expected.totals)}", 0, len(wrong)),
    ]


def _check_large(client: Client, expected: Expected) -> list[Check]:
    found = Counter(
        json.loads(_text(each.value))["id"] for each in _messages(client, "orders.large")
    )
    return [
        Check("large orders", len(expected.large), found.total()),
        Check("of them missing, or there twice", 0, len(set(expected.large) ^ set(found))
              + sum(times > 1 for times in found.values())),
    ]  # fmt: skip


def _messages(client: Client, topic: str) -> list[Received]:
    return sorted(client.read(topic), key=lambda each: (each.partition, each.offset))


def _count(client: Client, topic: str, value: str) -> int:
    return sum(_text(each.value) == value for each in _messages(client, topic))


def _contents(messages: list[Received]) -> list[tuple[object, ...]]:
    return [(each.partition, each.key, each.value, each.timestamp) for each in messages]


def count_delta_rows(table: Path) -> int:
    from deltalake import DeltaTable

    return DeltaTable(str(table)).to_pyarrow_dataset().count_rows()  # type: ignore[no-any-return]


def _text(payload: bytes | None) -> str:
    return (payload or b"").decode()
