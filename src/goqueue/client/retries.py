"""Whether to send a request again, and when.  A decision over plain data; the clients carry it out.

A request is repeated only when that cannot do the same thing twice: nothing was sent, or the
server said that it did nothing and when to come again, or doing it twice is the same as once.
A publish that may have happened is never repeated: its caller is told (`NoAnswer`).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from goqueue.client.errors import ClientError, NoAnswer, Overloaded, ServerUnreachable


class Retries(msgspec.Struct, frozen=True):
    count_max: int = 2
    """Times a request is sent again; 0: never."""
    delay_seconds: float = 0.1
    """Before the first repetition; each further one waits twice as long."""
    delay_seconds_max: float = 5.0
    """Longest wait.  A server that asks for more is not asked again."""


FOLLOWING: Final = Retries(count_max=12)  # some 40 seconds: a server may be started again meanwhile


def delay_before_retry(
    error: ClientError,
    *,
    repetitions: int,
    is_repeatable: bool,
    retries: Retries,
    jitter: Callable[[float, float], float],
) -> float | None:
    """Seconds to wait before sending it again; None: give the error to the caller."""
    if repetitions >= retries.count_max:
        return None
    backoff = min(retries.delay_seconds * 2.0**repetitions, retries.delay_seconds_max)
    delay = backoff * jitter(0.5, 1.0)
    match error:
        case ServerUnreachable():
            return delay
        case Overloaded(retry_after_seconds=float() | int() as asked):
            return max(asked, delay) if asked <= retries.delay_seconds_max else None
        case NoAnswer() | Overloaded() if is_repeatable:
            return delay
        case _:
            return None
