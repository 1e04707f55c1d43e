"""The shapes handlers see where kio's newest class cannot serve for all versions.

OffsetCommit and OffsetFetch name a topic by its name up to version 9 and by its id from 10 on, so
kio's newest class has no room for the names that nearly every client sends.  These have both: in a
request the one that was not sent is empty (`""`, `None`); an answer fills in both, and each version
takes its own.

All other messages have the shape of kio's newest class.
"""

import uuid
from dataclasses import dataclass, field

from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64

_BOOL = {"kafka_type": "bool"}
_ERROR_CODE = {"kafka_type": "error_code"}
_INT32 = {"kafka_type": "int32"}
_INT64 = {"kafka_type": "int64"}
_STRING = {"kafka_type": "string"}
_TIMEDELTA_I32 = {"kafka_type": "timedelta_i32"}
_UUID = {"kafka_type": "uuid"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    partition_index: i32 = field(metadata=_INT32)
    committed_offset: i64 = field(metadata=_INT64)
    committed_leader_epoch: i32 = field(metadata=_INT32, default=i32(-1))
    committed_metadata: str | None = field(metadata=_STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    name: TopicName = field(metadata=_STRING)
    partitions: tuple[OffsetCommitRequestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    group_id: GroupId = field(metadata=_STRING)
    generation_id_or_member_epoch: i32 = field(metadata=_INT32, default=i32(-1))
    member_id: str = field(metadata=_STRING)
    group_instance_id: str | None = field(metadata=_STRING, default=None)
    topics: tuple[OffsetCommitRequestTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    partition_index: i32 = field(metadata=_INT32)
    error_code: ErrorCode = field(metadata=_ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    name: TopicName = field(metadata=_STRING)
    partitions: tuple[OffsetCommitResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    throttle_time: i32Timedelta = field(metadata=_TIMEDELTA_I32)
    topics: tuple[OffsetCommitResponseTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    name: TopicName = field(metadata=_STRING)
    partition_indexes: tuple[i32, ...] = field(metadata=_INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    group_id: GroupId = field(metadata=_STRING)
    member_id: str | None = field(metadata=_STRING, default=None)
    member_epoch: i32 = field(metadata=_INT32, default=i32(-1))
    topics: tuple[OffsetFetchRequestTopic, ...] | None  # null: all topics with committed offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    groups: tuple[OffsetFetchRequestGroup, ...]
    require_stable: bool = field(metadata=_BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    partition_index: i32 = field(metadata=_INT32)
    committed_offset: i64 = field(metadata=_INT64)
    committed_leader_epoch: i32 = field(metadata=_INT32, default=i32(-1))
    metadata: str | None = field(metadata=_STRING)
    error_code: ErrorCode = field(metadata=_ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    topic_id: uuid.UUID | None = field(metadata=_UUID)
    name: TopicName = field(metadata=_STRING)
    partitions: tuple[OffsetFetchResponsePartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    group_id: GroupId = field(metadata=_STRING)
    topics: tuple[OffsetFetchResponseTopic, ...]
    error_code: ErrorCode = field(metadata=_ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    throttle_time: i32Timedelta = field(metadata=_TIMEDELTA_I32)
    groups: tuple[OffsetFetchResponseGroup, ...]
