"""Orders that a seed decides, and what must come out of the pipeline for them."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Final

import msgspec

STORES: Final = Path(__file__).with_name("stores.json")
MINUTES: Final = 6  # that the orders are spread over
# The last minutes: messages bear the times of their orders, and old ones would not be kept.
FIRST: Final = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=MINUTES + 1)
LARGE: Final = Decimal(450)
BAD_EVERY: Final = 500
BAD: Final = '{"id": "unreadable"}'
SEED: Final = 42


class Order(msgspec.Struct, frozen=True):
    id: int
    store: str
    customer: str
    amount: Decimal
    at: datetime

    def value(self) -> str:
        fields = msgspec.to_builtins(self)
        return json.dumps({**fields, "amount": float(self.amount)})


class Expected(msgspec.Struct):
    """What the pipeline must come to."""

    messages: int = 0
    bad: int = 0
    large: list[int] = []
    totals: dict[str, tuple[int, Decimal]] = {}
    """Region and minute: how many, and for how much."""


def orders(count: int) -> Iterator[Order]:
    chance = random.Random(SEED)
    stores = list(regions())
    for number in range(count):
        yield Order(
            number,
            chance.choice(stores),
            f"customer-{chance.randrange(200)}",
            Decimal(chance.randrange(100, 50_000)) / 100,
            FIRST + timedelta(minutes=MINUTES) * number / count + _jitter(chance),
        )


def _jitter(chance: random.Random) -> timedelta:
    """Orders come out of order, but never later than the pipeline waits."""
    return timedelta(milliseconds=chance.randrange(-20_000, 20_000))


def messages(count: int) -> Iterator[tuple[str | None, str]]:
    """Key and value of each; now and then one that nobody can read."""
    for order in orders(count):
        if order.id % BAD_EVERY == BAD_EVERY - 1:
            yield None, BAD
        yield order.customer, order.value()


def expected(count: int) -> Expected:
    totals: dict[str, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    large = []
    region = regions()
    for order in orders(count):
        key = f"{region[order.store]} {order.at:%H:%M}"
        number, amount = totals[key]
        totals[key] = number + 1, amount + order.amount
        if order.amount >= LARGE:
            large.append(order.id)
    bad = count // BAD_EVERY
    return Expected(count + bad, bad, large, dict(totals))


def regions() -> dict[str, str]:
    lines = STORES.read_text(encoding="utf-8").splitlines()
    return {each["store"]: each["region"] for each in map(json.loads, lines)}
