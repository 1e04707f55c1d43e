"""How a group works its topics off: its settings over HTTP."""

import msgspec
from litestar import get, patch, put
from litestar.params import JSONBody

from goqueue.api.queues import UNSET, GroupSettingsBody, QueueSettingsBody
from goqueue.queue import InvalidQueueSetting, QueueSettings
from goqueue.server.http.asgi.dependencies import TheQueues
from goqueue.server.http.routes.group_bodies import GroupPath, group_name
from goqueue.server.http.routes.queue_bodies import queue_responses, queue_write_responses


@get(
    "/groups/{group:str}/queue",
    tags=["queues"],
    summary="A group's queue settings",
    responses=queue_responses(),
)
async def get_queue_settings(queues: TheQueues, group: GroupPath) -> GroupSettingsBody:
    """Of a group that is not there yet: what it would begin with."""
    return _body(group, queues.settings(group_name(group)))


@put(
    "/groups/{group:str}/queue",
    tags=["queues"],
    summary="Set a group's queue settings",
    responses=queue_write_responses(507),
)
async def put_queue_settings(
    queues: TheQueues, group: GroupPath, data: JSONBody[QueueSettingsBody]
) -> GroupSettingsBody:
    """Set all of them: what is absent gets its default.  Makes the group if need be."""
    wanted = _settings(QueueSettings(), data)
    return _body(group, await queues.configure(group_name(group), wanted))


@patch(
    "/groups/{group:str}/queue",
    tags=["queues"],
    summary="Change a group's queue settings",
    responses=queue_write_responses(507),
)
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
    if any(ord(letter) < 32 for letter in wanted.fairness):
        raise InvalidQueueSetting("fairness: the name of a header has no control characters")
    wanted.check()
    return wanted


def _body(group: str, settings: QueueSettings) -> GroupSettingsBody:
    values = {name: getattr(settings, name) for name in QueueSettingsBody.__struct_fields__}
    values["weights"] = list(settings.weights)
    return GroupSettingsBody(group, QueueSettingsBody(**values))


HANDLERS = [get_queue_settings, put_queue_settings, change_queue_settings]
