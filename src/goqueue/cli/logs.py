"""Where the server's log lines go: standard error, readable at a terminal, JSON elsewhere."""

import contextlib
import io
import logging
import sys
from typing import TextIO, cast

import structlog


def is_readable(log_format: str) -> bool:
    """For people, not for programs."""
    return log_format == "console" or (log_format == "auto" and sys.stderr.isatty())


def set_up(log_format: str, log_level: str) -> None:
    if is_readable(log_format):
        last: list[structlog.typing.Processor] = [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        ]
    else:
        last = [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *last,
        ],
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _Forgiving(sys.stderr))),
        # A logger that is kept would keep its level.  Nothing logs in a loop over messages.
        cache_logger_on_first_use=False,
    )
    set_level(log_level)


def set_level(log_level: str) -> None:
    """From now on, for every logger."""
    number = logging.getLevelNamesMapping()[log_level.upper()]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(number))


class _Forgiving(io.TextIOBase):
    """A stream that drops what cannot be written: its disk may be full, its reader gone.

    The server goes on.  What it has to say then is in its metrics and answers.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()
