"""A wall clock that somebody sets: deadlines go on by the time that passes, and the log says so."""

from typing import Final

import structlog

from goqueue.runtime import Clock

CLOCK_CHECK_SECONDS: Final = 10.0
CLOCK_JUMP_MS: Final = 1_000  # a change of the wall clock that is worth a warning

_log = structlog.get_logger("goqueue.broker")


def clock_offset_ms(clock: Clock) -> int:
    """How far the wall clock is ahead of the steady one, since somebody set it."""
    return clock.now() - clock.steady()


async def watch_clock(clock: Clock) -> None:
    """Warn of each jump, until cancelled."""
    before = 0
    while True:
        await clock.sleep(CLOCK_CHECK_SECONDS)
        offset = clock_offset_ms(clock)
        if abs(offset - before) > CLOCK_JUMP_MS:
            _log.warning(
                "the wall clock was set: deadlines go on by the time that passes",
                offset_ms=offset,
            )
            before = offset
        elif abs(offset) < abs(before):
            before = offset  # it is being made up for
