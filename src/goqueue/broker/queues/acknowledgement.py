"""How callers end deliveries: the same five ways for receipts and for ranges of offsets."""

from typing import Final

import msgspec

from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.ids import Offset, Timestamp
from goqueue.model.limits import VISIBILITY_MS_MAX
from goqueue.model.machine import Decision
from goqueue.queue import (
    GroupTable,
    Outcomes,
    QueueMachine,
    QueueRecord,
    Settled,
    SettleOutcome,
    Verdict,
)
from goqueue.queue.dead_letter import dead_letter_topic
from goqueue.queue.receipts import Claims

DELAY_MS_MAX: Final = 30 * 24 * 3_600_000


class Ack(msgspec.Struct, frozen=True, tag="ack"):
    """Done with."""


class Nack(msgspec.Struct, frozen=True, tag="nack"):
    """Failed: again after `delay_ms`, or after the group's backoff."""

    delay_ms: int | None = None
    reason: str = ""


class Reject(msgspec.Struct, frozen=True, tag="reject"):
    """To the dead letters at once."""

    reason: str


class Extend(msgspec.Struct, frozen=True, tag="extend"):
    """Still at work: `visibility_ms` from now on."""

    visibility_ms: int


class Release(msgspec.Struct, frozen=True, tag="release"):
    """Back, and no failure; a dead letter if it was delivered `deliveries_max` times."""

    delay_ms: int = 0
    deliveries_max: int | None = None  # None: the group's `max_deliveries`


Ending = Ack | Nack | Reject | Extend | Release


def check(ending: Ending) -> None:
    match ending:
        case Nack(delay_ms=delay_ms) | Release(delay_ms=delay_ms):
            if delay_ms is not None:
                check_number(delay_ms, "delay_ms", 0, DELAY_MS_MAX)
        case Extend(visibility_ms=visibility_ms):
            check_number(visibility_ms, "visibility_ms", 1, VISIBILITY_MS_MAX)
        case Ack() | Reject():
            pass


def check_number(value: int, name: str, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidRequest(f"{name} is {value}, and must be {least} to {most}")


def decide(
    machine: QueueMachine, ending: Ending, now: Timestamp, claims: Claims, outcomes: Outcomes
) -> Decision[QueueRecord, None]:
    match ending:
        case Ack():
            return machine.ack(claims, outcomes)
        case Nack(delay_ms=delay_ms, reason=reason):
            return machine.nack(now, claims, outcomes, delay_ms=delay_ms, reason=reason)
        case Reject(reason=reason):
            return machine.reject(now, claims, outcomes, reason=reason)
        case Extend(visibility_ms=visibility_ms):
            return machine.extend(now, claims, outcomes, visibility_ms=visibility_ms)
        case Release(delay_ms=delay_ms, deliveries_max=deliveries_max):
            return machine.release(
                now, claims, outcomes, delay_ms=delay_ms, deliveries_max=deliveries_max
            )


def to_outcomes(table: GroupTable, claims: Claims, outcomes: Outcomes) -> list[SettleOutcome]:
    """The outcomes as callers hear them, once they are applied."""
    results: list[SettleOutcome | None] = [
        outcome if isinstance(outcome, GoQueueError) else None for outcome in outcomes
    ]
    for (where, _), some in claims.items():
        state = table.state(where)
        if state is None:
            continue
        floor, in_flight = state.ack_floor, sum(state.in_flight)
        topic, partition = where.topic, where.partition
        for offset, _, attempt, place in (one for claim in some for one in claim.each()):
            verdict = outcomes[place]
            if not isinstance(verdict, Verdict):
                continue
            is_dead = verdict.action in ("dead", "rejected")
            results[place] = Settled(
                topic,
                partition,
                Offset(offset),
                attempt,
                verdict.action,
                floor,
                in_flight,
                verdict.visible_at,
                verdict.deadline,
                dead_letter_topic(topic) if is_dead else None,
            )
    return [result for result in results if result is not None]
