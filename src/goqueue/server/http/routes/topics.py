"""Topics: create, list, describe, grow, delete, and their settings."""

import asyncio
from typing import Annotated, Any, Final

from litestar import Request, Response
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import JSONBody, Parameter, PathParameter

from goqueue.api.parsing import NAME_PATTERN
from goqueue.api.topics import (
    AddPartitions,
    ChangeSettings,
    CreateTopic,
    Offsets,
    PartitionInfo,
    PartitionList,
    PartitionsAdded,
    SettingInfo,
    SettingInput,
    SettingList,
    TopicCreated,
    TopicDeleted,
    TopicDetail,
    TopicList,
    TopicSummary,
)
from goqueue.broker import Broker
from goqueue.broker.messages.remote_partition import Readable, readable
from goqueue.cluster import PartitionState, Topic
from goqueue.model.errors import InvalidRequest
from goqueue.model.names import topic_name
from goqueue.model.settings import SETTINGS, setting_text, topic_settings
from goqueue.model.times import time_text
from goqueue.security import ResourceType
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.security.audited import set_details
from goqueue.server.http.security.visibility import visible

HOUR_MS: Final = 3_600_000
TOPICS_PAGE_MAX: Final = 10_000
SUMMARIES_AT_ONCE: Final = 500  # some two milliseconds
OPENED_AT_ONCE: Final = 32  # partitions that one description opens at the same time


TopicPath = Annotated[
    str,
    PathParameter(
        description="The topic's name.",
        schema_extra={"pattern": NAME_PATTERN, "examples": ["orders"]},
    ),
]


routes = Routes("topics")


# --- topics -------------------------------------------------------------------------------------


@routes.post(
    "/topics",
    "Create a topic",
    409,
    422,
    507,
    status_code=201,
    responses={
        200: ResponseSpec(TopicCreated, description="With `validate_only`: it could be created.")
    },
)
async def create_topic(
    broker: TheBroker, request: Request[Any, Any, Any], data: JSONBody[CreateTopic]
) -> Response[TopicCreated]:
    if data.num_partitions is not None and data.partitions is not None:
        raise InvalidRequest("give num_partitions or partitions, not both")
    settings = setting_texts(data.settings)
    if data.retention_hours is not None:
        if "retention.ms" in settings:
            raise InvalidRequest("give retention_hours or the setting retention.ms, not both")
        settings["retention.ms"] = str(data.retention_hours * HOUR_MS)
    topic = await broker.create_topic(
        data.name,
        partitions=data.num_partitions or data.partitions,
        settings=settings,
        validate_only=data.validate_only,
        replication_factor=data.replication_factor,
    )
    created = not data.validate_only
    set_details(request, f"{topic.name} {topic.partitions} partitions {dict(topic.overrides)}")
    body = TopicCreated(
        topic.name, str(topic.topic_id), topic.partitions, dict(topic.overrides), created
    )
    if not created:
        return Response(body, status_code=200)
    # Relative, so that it is right below any prefix.
    return Response(body, headers={"Location": f"topics/{topic.name}"})


@routes.get("/topics", "List topics")
async def list_topics(
    broker: TheBroker,
    request: Request[Any, Any, Any],
    internal: Annotated[bool, query("The broker's own topics too.")] = False,
    verbose: Annotated[bool, query("More about each topic.")] = False,
    limit: Annotated[int, Parameter(ge=1, le=TOPICS_PAGE_MAX)] = TOPICS_PAGE_MAX,
    after: Annotated[str | None, query("Only names behind this one.", max_length=249)] = None,
) -> TopicList:
    may_see = visible(request.scope, broker.permissions, ResourceType.TOPIC)
    known = (t for t in broker.topics(internal=internal) if after is None or t.name > after)
    found = [topic for topic in known if may_see(topic.name)]
    page = found[:limit]
    return TopicList(
        [topic.name for topic in page],
        await _summaries(broker, page) if verbose else None,
        page[-1].name if len(found) > limit else None,
    )


async def _summaries(broker: Broker, topics: list[Topic]) -> list[TopicSummary]:
    found: list[TopicSummary] = []
    for first in range(0, len(topics), SUMMARIES_AT_ONCE):
        found += [_summary(broker, each) for each in topics[first : first + SUMMARIES_AT_ONCE]]
        await asyncio.sleep(0)  # others have their turn
    return found


def _summary(broker: Broker, topic: Topic) -> TopicSummary:
    opened = [broker.partitions.find_open(topic.name, i) for i in range(topic.partitions)]
    logs = [each.log for each in opened if each is not None]
    is_known = len(logs) == topic.partitions
    return TopicSummary(
        topic.name,
        str(topic.topic_id),
        topic.partitions,
        time_text(topic.created_at),
        topic.is_internal,
        dict(topic.overrides),
        sum(log.high_watermark - log.start_offset for log in logs) if is_known else None,
        sum(log.size for log in logs) if is_known else None,
    )


@routes.get("/topics/{topic:str}", "Describe a topic", 404)
async def describe_topic(broker: TheBroker, topic: TopicPath) -> TopicDetail:
    """With its offsets and size.  `total_messages` counts offsets, also those compacted away."""
    found = broker.topic(topic_name(topic))
    partitions = await _open_all(broker, found)
    return TopicDetail(
        name=found.name,
        topic_id=str(found.topic_id),
        partitions=found.partitions,
        created_at=time_text(found.created_at),
        internal=found.is_internal,
        settings=dict(found.overrides),
        total_messages=sum(p.log.high_watermark - p.log.start_offset for p in partitions),
        total_size_bytes=sum(p.log.size for p in partitions),
        partition_offsets={p.index: offsets_of(p) for p in partitions},
    )


def offsets_of(partition: Readable) -> Offsets:
    log = partition.log
    return Offsets(log.start_offset, log.high_watermark, log.high_watermark)


async def _open_all(broker: Broker, topic: Topic) -> list[Readable]:
    found: list[Readable] = []
    for first in range(0, topic.partitions, OPENED_AT_ONCE):
        indexes = range(first, min(first + OPENED_AT_ONCE, topic.partitions))
        found += await asyncio.gather(*(readable(broker, topic, i) for i in indexes))
    return found


@routes.delete("/topics/{topic:str}", "Delete a topic and its messages", 404, 422)
async def delete_topic(broker: TheBroker, topic: TopicPath) -> TopicDeleted:
    deleted = await broker.delete_topic(topic_name(topic))
    return TopicDeleted(deleted.name, deleted=True)


# --- partitions ---------------------------------------------------------------------------------


@routes.get("/topics/{topic:str}/partitions", "List a topic's partitions", 404)
async def list_partitions(broker: TheBroker, topic: TopicPath) -> PartitionList:
    found = broker.topic(topic_name(topic))
    partitions = await _open_all(broker, found)
    states = broker.metadata.partitions.of(found.topic_id)
    return PartitionList(
        found.name,
        [_partition_info(each, states[each.index]) for each in partitions],
    )


def _partition_info(partition: Readable, state: PartitionState) -> PartitionInfo:
    log = partition.log
    return PartitionInfo(
        partition=partition.index,
        leader=state.leader,
        replicas=list(state.replicas),
        isr=list(state.isr),
        leader_epoch=partition.leader_epoch,
        earliest=log.start_offset,
        latest=log.high_watermark,
        next_offset=log.high_watermark,
        high_watermark=log.high_watermark,
        size_bytes=log.size,
        segments=len(log.segments),
        read_only=log.failed,
    )


@routes.post(
    ["/topics/{topic:str}/partitions", "/admin/topics/{topic:str}/partitions"],
    "Add partitions",
    404,
    422,
)
async def add_partitions(
    broker: TheBroker, topic: TopicPath, data: JSONBody[AddPartitions]
) -> PartitionsAdded:
    """Grow the topic to `count` partitions.  Keys may move to other partitions by that."""
    before = broker.topic(topic_name(topic)).partitions
    after = await broker.add_partitions(topic, data.count, validate_only=data.validate_only)
    return PartitionsAdded(
        success=True,
        topic_name=after.name,
        old_partition_count=before,
        new_partition_count=after.partitions,
        partitions_added=after.partitions - before,
    )


# --- settings -----------------------------------------------------------------------------------


@routes.get("/topics/{topic:str}/settings", "All settings of a topic", 404)
async def get_settings(broker: TheBroker, topic: TopicPath) -> SettingList:
    return _setting_list(broker, broker.topic(topic_name(topic)))


@routes.patch("/topics/{topic:str}/settings", "Change settings of a topic", 404, 422)
async def change_settings(
    broker: TheBroker,
    request: Request[Any, Any, Any],
    topic: TopicPath,
    data: JSONBody[ChangeSettings],
) -> SettingList:
    """All of it or nothing; gives the settings as they are afterwards."""
    both = sorted(set(data.set) & set(data.unset))
    if both:
        raise InvalidRequest(f"{', '.join(both)}: in set and in unset")
    unknown = sorted(name for name in data.unset if name not in SETTINGS)
    if unknown:
        raise InvalidRequest(f"unset: {', '.join(unknown)} is not a topic setting")
    changes: dict[str, str | None] = dict.fromkeys(data.unset)
    changes.update(setting_texts(data.set))
    set_details(request, str(changes))
    changed = await broker.change_settings(
        topic_name(topic), changes, validate_only=data.validate_only
    )
    return _setting_list(broker, changed)


def setting_texts(settings: dict[str, SettingInput]) -> dict[str, str]:
    """Settings are text, but a number in JSON need not be quoted."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def _setting_list(broker: Broker, topic: Topic) -> SettingList:
    defaults = topic_settings(broker.config.topics.settings)
    infos: dict[str, SettingInfo] = {}
    for setting in SETTINGS.values():
        value: Any = getattr(topic.settings, setting.field)
        default: Any = getattr(defaults, setting.field)
        infos[setting.name] = SettingInfo(
            setting_text(value),
            setting_text(default),
            setting.name not in topic.overrides,
            setting.kind,
            setting.meaning,
        )
    return SettingList(topic.name, infos)
