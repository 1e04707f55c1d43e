"""Requests and responses of group members over HTTP."""

import msgspec

from goqueue.groups import Viewer
from goqueue.groups.errors import InvalidGroupRequest
from goqueue.model.ids import GroupId, Offset, TopicName
from goqueue.model.record import Record
from goqueue.model.topic_partition import TopicPartition


class NotAssigned(InvalidGroupRequest):
    """The member does not have this partition, so it cannot say how far it has read."""

    code = "partition_not_assigned"


class JoinAsReader(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    topics: tuple[TopicName, ...] = ()
    topics_regex: str | None = None
    viewer: Viewer | None = None  # of the regular expression
    member_id: str = ""  # of a member that joins again; empty: a new one
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    assignor: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    auto_commit_interval_ms: int | None = None  # None: it commits for itself
    starts_at_end: bool = False


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A member's assignment."""

    member_id: str
    generation: int
    state: str
    partitions: list[TopicPartition]
    revoked: list[TopicPartition]
    session_timeout_ms: int


class PollRequest(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    member_id: str
    generation: int
    seen: int | None = None  # the last response that arrived; None: whichever was sent
    limit: int
    bytes_max: int


class Delivered(msgspec.Struct, frozen=True):
    """Messages of one partition, in order."""

    topic: str
    partition: int
    records: list[Record]
    next_offset: Offset


class Polled(msgspec.Struct, frozen=True):
    membership: Membership
    poll_id: int
    deliveries: list[Delivered]
    problems: list[str]  # what had to be skipped
