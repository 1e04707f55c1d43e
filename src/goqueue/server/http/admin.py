"""What operators change while the server runs."""

from typing import Any, Final

import msgspec
from litestar import get, put
from litestar.params import JSONBody

from goqueue.server.http.errors import responses, write_responses
from goqueue.server.http.given import TheServerLog


class LogLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: str
    """`debug`, `info`, `warning` or `error`; `debug` has a line for each request."""


@get("/admin/log-level", tags=["server"], summary="Show the log level", responses=responses())
async def get_log_level(server_log: TheServerLog) -> LogLevel:
    return LogLevel(server_log.level)


@put(
    "/admin/log-level",
    tags=["server"],
    summary="Change the log level",
    responses=write_responses(422),
)
async def put_log_level(server_log: TheServerLog, data: JSONBody[LogLevel]) -> LogLevel:
    """Until the next restart or reload (SIGHUP), which take the level from the configuration."""
    server_log.set_level(data.level)
    return LogLevel(server_log.level)


HANDLERS: Final[list[Any]] = [get_log_level, put_log_level]
