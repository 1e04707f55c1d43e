"""How a group works its topics off: its settings over HTTP."""

from typing import Annotated, Literal

import msgspec
from litestar import get, patch, put
from litestar.params import JSONBody

from goqueue.queue import InvalidQueueSetting, QueueSettings
from goqueue.server.http.asgi.dependencies import TheQueues
from goqueue.server.http.parsing import INT64_MAX, DurationMs, PositiveDurationMs, TakesDurations
from goqueue.server.http.routes.group_bodies import NAME_LENGTH_MAX, GroupPath, group_name
from goqueue.server.http.routes.queue_bodies import queue_responses, queue_write_responses

Unset = msgspec.UnsetType
UNSET = msgspec.UNSET
Number = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Above0 = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]


class QueueSettingsBody(TakesDurations, frozen=True, forbid_unknown_fields=True, kw_only=True):
    visibility_ms: PositiveDurationMs | Unset = UNSET
    """How long a consumer has for a message, unless it asks otherwise; 30000."""
    max_failures: Above0 | Unset = UNSET
    """Deliveries that consumers nacked, after which a message becomes a dead letter; 5."""
    max_timeouts: Above0 | Unset = UNSET
    """Deliveries that brought no answer (the visibility time-out passed, or the consumer died),
    after which a message becomes a dead letter; 20.  Larger than `max_failures`, for a consumer
    that dies fails also those that it has prefetched and not begun with."""
    max_deliveries: Number | Unset = UNSET
    """Deliveries, however they ended, after which a message that comes back becomes a dead letter;
    0: no limit.  5 for groups that share consumers make."""
    backoff_base_ms: DurationMs | Unset = UNSET
    """How long a message waits after its first failure; 1000."""
    backoff_factor: Annotated[float, msgspec.Meta(ge=1, le=100)] | Unset = UNSET
    """So much longer after each further one; 2."""
    backoff_max_ms: DurationMs | Unset = UNSET
    """And never longer than this; 60000."""
    backoff_jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] | Unset = UNSET
    """So much shorter or longer, by chance; 0.2."""
    max_in_flight_consumer: Above0 | Unset = UNSET
    """Messages that one consumer may hold; 1000."""
    max_in_flight_group: Above0 | Unset = UNSET
    """Messages that all consumers may hold; 100000."""
    ordering: Literal["none", "key"] | Unset = UNSET
    """`key`: one message of a key at a time, in order; `none`."""
    key_window: Above0 | Unset = UNSET
    """Messages of a partition that may be passed over because their key is busy; 10000."""
    priority: Literal["weighted", "strict"] | Unset = UNSET
    """`strict`: always the most urgent first; `weighted`."""
    weights: (
        Annotated[
            list[Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]],
            msgspec.Meta(min_length=5, max_length=5),
        ]
        | Unset
    ) = UNSET
    """Shares of critical, high, normal, low and background; 50, 25, 15, 7, 3."""
    starvation_ms: PositiveDurationMs | Unset = UNSET
    """A lane that waited so long gets one message out of turn; 30000."""
    fairness: Annotated[str, msgspec.Meta(max_length=NAME_LENGTH_MAX)] | Unset = UNSET
    """The header whose values share a lane equally; empty for none."""
    fairness_window: Above0 | Unset = UNSET
    """How many messages of a partition's lane are looked at for that; 1000."""
    ttl_ms: DurationMs | Unset = UNSET
    """Life of messages that do not say their own; 0: as the topic's `goqueue.ttl.ms` says."""
    expired: Literal["topic", "dead_letter", "drop"] | Unset = UNSET
    """What becomes of messages that outlived it; `topic`: as the topic's `goqueue.expired` says."""
    start: Literal["earliest", "latest"] | Unset = UNSET
    """Where the group begins in a partition that is new to it; `earliest`."""
    hand_outs: Literal["synced", "written"] | Unset = UNSET
    """`written`: messages are answered sooner, before it is synced who got them; `synced`."""
    isolation: Literal["read_committed", "read_uncommitted"] | Unset = UNSET
    """`read_uncommitted`: messages of open and aborted transactions are delivered, too;
    `read_committed`."""
    session_timeout_ms: DurationMs | Unset = UNSET
    """Silence after which a member is taken for dead, unless it names another when it joins;
    0: the server's `groups.session_timeout_ms`."""
    heartbeat_interval_ms: DurationMs | Unset = UNSET
    """How often share consumers send heartbeats; 0: the server's `groups.heartbeat_interval_ms`."""


class GroupSettingsBody(msgspec.Struct, frozen=True):
    group: str
    settings: QueueSettingsBody
    """All of them."""


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
