"""Settings of a queue group over HTTP."""

import msgspec
from litestar.params import JSONBody

from goqueue.api.queues import UNSET, GroupSettingsBody, QueueSettingsBody
from goqueue.queue import InvalidQueueSetting, QueueSettings
from goqueue.server.http.asgi.dependencies import TheQueues
from goqueue.server.http.routes.family import Routes
from goqueue.server.http.routes.group_bodies import GroupPath, group_name
from goqueue.server.http.routes.queue_bodies import MEANINGS

routes = Routes("queues", MEANINGS)


@routes.get("/groups/{group:str}/queue", "A group's queue settings")
async def get_queue_settings(queues: TheQueues, group: GroupPath) -> GroupSettingsBody:
    """Of a group that is not there yet: what it would begin with."""
    return _body(group, queues.settings(group_name(group)))


@routes.put("/groups/{group:str}/queue", "Set a group's queue settings", 507)
async def put_queue_settings(
    queues: TheQueues, group: GroupPath, data: JSONBody[QueueSettingsBody]
) -> GroupSettingsBody:
    """Set all of them: what is absent gets its default.  Makes the group if need be."""
    wanted = _settings(QueueSettings(), data)
    return _body(group, await queues.configure(group_name(group), wanted))


@routes.patch("/groups/{group:str}/queue", "Change a group's queue settings", 507)
async def change_queue_settings(
    queues: TheQueues, group: GroupPath, data: JSONBody[QueueSettingsBody]
) -> GroupSettingsBody:
    """Change some of them: what is absent stays.  Makes the group if need be."""
    group_id = group_name(group)
    wanted = _settings(queues.settings(group_id), data)
    return _body(group, await queues.configure(group_id, wanted))


def _settings(before: QueueSettings, changes: QueueSettingsBody) -> QueueSettings:
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name in QueueSettingsBody.__struct_fields__
        if (value := getattr(changes, name)) is not UNSET
    }
    wanted: QueueSettings = msgspec.structs.replace(before, **given)
    if any(ord(character) < 32 for character in wanted.fairness):
        raise InvalidQueueSetting("fairness: the name of a header has no control characters")
    wanted.check()
    return wanted


def _body(group: str, settings: QueueSettings) -> GroupSettingsBody:
    values = {name: getattr(settings, name) for name in QueueSettingsBody.__struct_fields__}
    values["weights"] = list(settings.weights)
    return GroupSettingsBody(group, QueueSettingsBody(**values))
