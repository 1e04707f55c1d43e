"""What operators change while the server runs."""

import os
from typing import Annotated, Any, Final

from litestar import delete, get, post, put
from litestar.params import JSONBody, PathParameter

from goqueue.api.server import BackupBody, BackupRemoved, LogLevel
from goqueue.broker.storage.backups import Copied
from goqueue.server.http.asgi.dependencies import TheBroker, TheServerLog
from goqueue.server.http.errors import responses, write_responses

BackupPath = Annotated[str, PathParameter(description="From the answer that made it.")]


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


@post(
    "/admin/backups",
    tags=["server"],
    summary="Make a consistent copy of all data",
    responses=write_responses(507),
)
async def take_backup(broker: TheBroker) -> BackupBody:
    """The copy lies beside the data; sealed segments are links and take no room.

    `goqueue backup` calls this, takes the copy away, verifies it, and deletes it here.  A copy that
    nobody deletes goes at the next start.
    """
    return _body(await broker.backups.take())


def _body(copied: Copied) -> BackupBody:
    return BackupBody(
        copied.backup_id,
        os.path.abspath(copied.path),
        copied.topics,
        copied.partitions,
        copied.log_bytes,
        copied.seconds,
    )


@delete(
    "/admin/backups/{backup_id:str}",
    tags=["server"],
    summary="Remove a copy that was taken away",
    status_code=200,
    responses=write_responses(),
)
async def remove_backup(broker: TheBroker, backup_id: BackupPath) -> BackupRemoved:
    await broker.backups.remove(backup_id)
    return BackupRemoved(backup_id)


HANDLERS: Final[list[Any]] = [get_log_level, put_log_level, take_backup, remove_backup]
