"""How much the running server logs: its level and a line for each request, changed at run time."""

from collections.abc import Callable

import structlog

from goqueue.model.config import LOG_LEVELS
from goqueue.model.errors import InvalidRequest, PolicyViolation

_log = structlog.get_logger("goqueue.access")


class ServerLog:
    """`set_level` comes from the program that set up the log; without it, the level is its own."""

    def __init__(
        self,
        level: str = "info",
        *,
        access_log: bool = False,
        set_level: Callable[[str], None] | None = None,
    ) -> None:
        self.level = level
        self.access_log = access_log
        self._set_level = set_level

    @property
    def access_log(self) -> bool:
        return self._access_log

    @access_log.setter
    def access_log(self, access_log: bool) -> None:
        self._access_log = access_log
        self._look_again()

    def _look_again(self) -> None:
        # A plain attribute: it is read for every request.
        self.wants_requests = self._access_log or self.level == "debug"

    def set_level(self, level: str) -> None:
        if level not in LOG_LEVELS:
            raise InvalidRequest(f"log level {level!r}: must be {', '.join(LOG_LEVELS)}")
        if self._set_level is None:
            raise PolicyViolation("the program that embeds this server sets its log level")
        self._set_level(level)
        self.level = level
        self._look_again()

    def http_request(
        self, *, method: str, path: str, status: int, seconds: float, peer: str
    ) -> None:
        """Only to be called when `wants_requests`."""
        self._tell(
            "http request", method=method, path=path, status=status, ms=_ms(seconds), peer=peer
        )

    def kafka_request(self, *, api: str, bytes_out: int, seconds: float, peer: str) -> None:
        """Only to be called when `wants_requests`."""
        self._tell("kafka request", api=api, bytes_out=bytes_out, ms=_ms(seconds), peer=peer)

    def _tell(self, event: str, **facts: object) -> None:
        tell = _log.info if self._access_log else _log.debug
        tell(event, **facts)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
