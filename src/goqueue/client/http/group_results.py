"""What the server says of consumer groups, as types."""

import msgspec

from goqueue.client.http.messages import WireTime
from goqueue.client.http.queue_results import WireDelivery


class Place(msgspec.Struct, frozen=True, order=True):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class GroupSummary(msgspec.Struct, frozen=True):
    id: str
    state: str
    members: int
    generation: int
    type: str = ""


class GroupPage(msgspec.Struct, frozen=True):
    groups: list[GroupSummary]
    next_after: str | None = None
    """There are more groups behind this one."""


class GroupMember(msgspec.Struct, frozen=True):
    id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    protocol: str = ""
    generation: int = 0
    state: str = ""
    topics: list[str] = []
    topics_regex: str | None = None
    partitions: list[Place] = []
    revoking: list[Place] = []
    target: list[Place] = []


class Group(msgspec.Struct, frozen=True):
    id: str
    state: str
    generation: int
    members: list[GroupMember]
    type: str = ""
    assignor: str = ""
    topics: list[str] = []
    changed_at: WireTime = None


class PartitionLag(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int
    earliest: int = 0
    member_id: str | None = None
    client_id: str | None = None


class GroupLag(msgspec.Struct, frozen=True):
    group: str
    state: str
    total_lag: int
    partitions: list[PartitionLag]


class GroupOffset(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    metadata: str = ""
    committed_at: WireTime = None


class GroupOffsets(msgspec.Struct, frozen=True):
    group: str
    offsets: list[GroupOffset]


class MovedOffset(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    before: int | None
    after: int


class OffsetsReset(msgspec.Struct, frozen=True):
    group: str
    dry_run: bool
    offsets: list[MovedOffset]


class Membership(msgspec.Struct, frozen=True):
    member_id: str
    generation: int
    partitions: list[Place]
    revoked: list[Place] = []
    state: str = ""
    mode: str = "stream"


class WirePoll(Membership, frozen=True, kw_only=True):
    messages: list[WireDelivery]
    poll_id: int = 0
    next_offsets: dict[str, dict[int, int]] = {}
    problems: list[str] = []
