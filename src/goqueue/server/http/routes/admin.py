"""What operators change while the server runs."""

import os
from typing import Annotated

from litestar.params import JSONBody, PathParameter

from goqueue.api.server import BackupBody, BackupRemoved, LogLevel, QuorumBody, QuorumMember
from goqueue.broker.storage.backups import Copied
from goqueue.server.http.asgi.dependencies import TheBroker, TheServerLog
from goqueue.server.http.routes.bodies import body_of
from goqueue.server.http.routes.family import Routes

routes = Routes("server")

BackupPath = Annotated[str, PathParameter(description="From the answer that made it.")]


@routes.get("/admin/log-level", "Show the log level")
async def get_log_level(server_log: TheServerLog) -> LogLevel:
    return LogLevel(server_log.level)


@routes.put("/admin/log-level", "Change the log level", 422)
async def put_log_level(server_log: TheServerLog, data: JSONBody[LogLevel]) -> LogLevel:
    """Until the next restart or reload (SIGHUP), which take the level from the configuration."""
    server_log.set_level(data.level)
    return LogLevel(server_log.level)


@routes.get("/cluster/quorum", "Show the quorum that keeps the metadata")
async def get_quorum(broker: TheBroker) -> QuorumBody:
    controller = broker.controller
    members = await controller.log.members()
    return QuorumBody(
        controller.log.name,
        controller.is_leading,
        broker.metadata.controller.term or controller.term,
        controller.journal.end_offset,
        controller.journal.committed_end,
        [QuorumMember(each.name, each.address, each.is_leader, each.problem) for each in members],
        broker.cluster.controller_id,
    )


@routes.post("/admin/backups", "Make a consistent copy of all data", 422, 507, status_code=201)
async def take_backup(broker: TheBroker) -> BackupBody:
    """The copy lies beside the data; sealed segments are links and take no room.

    `goqueue backup` calls this, takes the copy away, verifies it, and deletes it here.  A copy that
    nobody deletes goes at the next start.
    """
    return _body(await broker.backups.take())


def _body(copied: Copied) -> BackupBody:
    return body_of(BackupBody, copied, path=os.path.abspath(copied.path))


@routes.delete("/admin/backups/{backup_id:str}", "Remove a copy that was taken away")
async def remove_backup(broker: TheBroker, backup_id: BackupPath) -> BackupRemoved:
    await broker.backups.remove(backup_id)
    return BackupRemoved(backup_id)
