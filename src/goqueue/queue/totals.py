"""What was done since the broker started; counted as records are applied."""

from collections.abc import Iterable
from typing import Final

from goqueue.queue.records import Finished, MarkedDead, Returned
from goqueue.queue.replies import Totals

_NUMBERS: Final = tuple(name for name in Totals.__struct_fields__ if name != "dead")


def sum_of(totals: Iterable[Totals]) -> Totals:
    found = Totals()
    for each in totals:
        for name in _NUMBERS:
            setattr(found, name, getattr(found, name) + getattr(each, name))
        for reason, count in each.dead.items():
            found.dead[reason] = found.dead.get(reason, 0) + count
    return found


def count_finished(totals: Totals, record: Finished) -> None:
    count = sum(last - first + 1 for first, last in record.ranges)
    if record.is_ack:
        totals.acked += count
    else:
        totals.dropped += count
        totals.expired += record.expired


def count_returned(totals: Totals, record: Returned) -> None:
    count = len(record.offsets)
    match record.cause:
        case "nacked":
            totals.nacked += count
        case "timed_out" | "lost" | "expired":
            totals.timed_out += count
        case "released":
            totals.released += count


def count_dead(totals: Totals, record: MarkedDead) -> None:
    for message in record.dead:
        totals.dead[message.reason] = totals.dead.get(message.reason, 0) + 1
    match record.cause:
        case "nacked":
            totals.nacked += len(record.dead)
        case "timed_out" | "lost" | "expired":
            totals.timed_out += len(record.dead)
        case "rejected":
            totals.rejected += len(record.dead)
        case "released":
            totals.released += len(record.dead)
        case "outdated":
            totals.expired += len(record.dead)
        case "unreadable":
            pass
