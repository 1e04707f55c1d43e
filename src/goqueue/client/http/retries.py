"""Whether to send a request again, and when.  A decision over plain data; the clients carry it out.

A request is repeated only when that cannot do the same thing twice: nothing was sent, or the
server said that it did nothing and when to retry, or doing it twice is the same as once.
A publish that may have happened is never repeated: its caller is told (`NoAnswer`).

All tries together take no longer than the client's time-out; only `follow` goes on beyond it.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from goqueue.client.errors import (
    ClientError,
    NoAnswer,
    NoFreeConnection,
    Overloaded,
    ServerUnreachable,
)


class Retries(msgspec.Struct, frozen=True):
    count_max: int = 2
    """Times a request is sent again; 0: never."""
    delay_seconds: float = 0.1
    """Before the first repetition; each further one waits twice as long."""
    delay_seconds_max: float = 5.0
    """Longest wait.  A server that asks for more is not asked again."""
    within_timeout: bool = True
    """Whether the time-out is for all tries together, or for each of them."""


FOLLOWING: Final = Retries(
    count_max=12, within_timeout=False
)  # some 40 seconds: a server may be started again meanwhile


def delay_before_retry(
    error: ClientError,
    *,
    repetitions: int,
    is_repeatable: bool,
    retries: Retries,
    left_seconds: float,
    jitter: Callable[[float, float], float],
) -> float | None:
    """Seconds to wait before sending it again; None: give the error to the caller.

    `left_seconds` is how long the wait may be for the next try to end within the time-out.
    """
    delay = _delay(error, repetitions, is_repeatable, retries, jitter)
    if delay is not None and retries.within_timeout and delay >= left_seconds:
        return None
    return delay


def _delay(
    error: ClientError,
    repetitions: int,
    is_repeatable: bool,
    retries: Retries,
    jitter: Callable[[float, float], float],
) -> float | None:
    if repetitions >= retries.count_max:
        return None
    backoff = min(retries.delay_seconds * 2.0**repetitions, retries.delay_seconds_max)
    delay = backoff * jitter(0.5, 1.0)
    match error:
        case NoFreeConnection():
            return None  # it has waited long enough
        case ServerUnreachable():
            return delay
        case Overloaded(retry_after_seconds=float() | int() as asked):
            return max(asked, delay) if asked <= retries.delay_seconds_max else None
        case NoAnswer() | Overloaded() if is_repeatable:
            return delay
        case _:
            return None
