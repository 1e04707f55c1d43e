"""Events as tests write them."""

from typing import Any

from goqueue.trace.events import Place, Step, TraceEvent

ORDERS, DEAD = bytes(range(16)), bytes(range(16, 32))
NAMES = {ORDERS: "orders", DEAD: "orders.dlq"}
_numbers = iter(range(1, 1 << 30))


def event(
    time_us: int, step: Step, first: int = 0, last: int | None = None, **more: Any
) -> TraceEvent:
    given = {"topic_id": ORDERS, "partition": 0, "node": 1, "boot": 7, **more}
    found = TraceEvent(time_us, step, **given)
    found.topic = NAMES[found.topic_id]
    found.first, found.last = first, first if last is None else last
    found.number = next(_numbers)
    return found


def at(offset: int, topic_id: bytes = ORDERS, partition: int = 0, space: int = 0) -> Place:
    return Place(topic_id, partition, offset, space)
