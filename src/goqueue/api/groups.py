"""Consumer groups and their members as JSON."""

from typing import Annotated, Final, Literal

import msgspec

from goqueue.api.messages import INT32_MAX, Encoding, HeaderBody
from goqueue.api.parsing import INT64_MAX, DurationMs, PositiveDurationMs, TakesDurations
from goqueue.model.topic_partition import TopicPartition

NAME_LENGTH_MAX: Final = 249
TOPICS_MAX: Final = 1_000  # of one member
PATTERN_LENGTH_MAX: Final = 1_000
METADATA_LENGTH_MAX: Final = 4_096
AUTO_COMMIT_MS_DEFAULT: Final = 5_000
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
OptionalName = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH_MAX)]
Generation = Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
PartitionNumber = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
OffsetNumber = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Mode = Literal["stream", "queue"]


class JoinGroup(TakesDurations, frozen=True, forbid_unknown_fields=True):
    topics: Annotated[list[Name], msgspec.Meta(max_length=TOPICS_MAX)] = []  # noqa: RUF012 # msgspec copies it
    """What to read; each must exist."""
    topics_regex: Annotated[str, msgspec.Meta(max_length=PATTERN_LENGTH_MAX)] | None = None
    """And all topics whose whole name this pattern matches (RE2), also those to come."""
    mode: Mode = "stream"
    """`stream`: partitions are divided among the members. `queue`: messages are, and each is acked
    by its receipt. A group is in its members' mode, one at a time."""
    client_id: OptionalName = ""
    """For people who look at the group."""
    member_id: OptionalName = ""
    """Of a member that joins again, or one of your choice; absent: the server makes one."""
    instance_id: Name | None = None
    """A static member: its next process takes its partitions over without a rebalance."""
    auto_commit: bool = True
    """A poll commits what the poll before it gave."""
    auto_commit_interval_ms: DurationMs = AUTO_COMMIT_MS_DEFAULT
    """Not more often than this, as `5s` or in milliseconds; an hour at most."""
    offset_reset: Literal["earliest", "latest"] = "earliest"
    """Where to begin in a partition that the group has committed nothing in."""
    session_timeout_ms: PositiveDurationMs | None = None
    """A member without poll or heartbeat for this long times out; absent: the server's 30 s."""
    rebalance_timeout_ms: PositiveDurationMs | None = None
    """Time to let partitions go when told to; the server's 60 s when absent."""
    assignor: Literal["uniform", "range", "roundrobin"] | None = None
    """How partitions are divided; what most members ask for is done. `uniform` when absent."""


class MemberCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    member_id: Name
    generation: Generation
    """As the last answer gave it."""


class LeaveGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    member_id: Name
    commit: bool = True
    """With auto-commit: what the last poll gave counts as processed. In queue mode only acks do;
    what the member still holds goes to others."""


class RevokePartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    member_id: Name
    generation: Generation
    """As the last answer gave it."""
    revoked_partitions: list[TopicPartition] | None = None
    """Partitions that were given up; absent: all revoked ones."""


class CommitOffsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    offsets: dict[str, dict[PartitionNumber, OffsetNumber]]
    """By topic and partition: the offset of the next message to process."""
    member_id: OptionalName = ""
    """Absent: set offsets from outside, which only a group without members allows."""
    generation: Generation | None = None
    """As the last answer gave it; required with `member_id`."""
    metadata: Annotated[str, msgspec.Meta(max_length=METADATA_LENGTH_MAX)] = ""
    """A note to keep with the offsets."""


class MembershipBody(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    mode: Mode
    generation: int
    """Send it with the next request."""
    state: str
    """`Stable`; `Revoking`: must give up partitions; `Waiting`: others must do so first."""
    partitions: list[TopicPartition]
    """What the member has; in queue mode all partitions of its topics, as every other member."""
    revoked: list[TopicPartition]
    """What it has to let go now: by the next poll or heartbeat with the new generation, or by
    `revoke`."""
    rebalance_required: bool
    """There is something in `revoked`."""
    session_timeout_ms: int
    """Poll or heartbeat more often than this."""
    heartbeat_interval_ms: int
    """How often is good, while no poll is under way."""


class GroupMessage(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    offset: int
    timestamp: str | int | None
    key: str | None
    value: str | None
    headers: list[HeaderBody]
    priority: str
    encoding: Encoding | msgspec.UnsetType = msgspec.UNSET
    """`base64` when key, value and header values are base64; otherwise absent."""


class PollBody(MembershipBody, frozen=True, kw_only=True):
    messages: list[GroupMessage]
    """A partition's in order; none when the member has to let partitions go."""
    next_offsets: dict[str, dict[str, int]]
    """By topic and partition: what to commit once these messages are processed."""
    poll_id: int
    """Give it as `seen` with the next poll, and nothing is lost with an answer that got lost."""
    problems: list[str]
    """Damaged or expired messages that had to be stepped over; mostly empty."""


class RevokedBody(MembershipBody, frozen=True, kw_only=True):
    pending_count: int
    """Partitions that still have to be given up."""


class LeftBody(msgspec.Struct, frozen=True):
    member_id: str
    left: bool


class CommittedBody(msgspec.Struct, frozen=True):
    group: str
    offsets: dict[str, dict[str, int]]


class GroupSummary(msgspec.Struct, frozen=True):
    id: str
    state: str
    """`Empty`, `Stable`, or on the way: `Assigning` and `Reconciling`, `PreparingRebalance` and
    `CompletingRebalance` in the classic protocol."""
    members: int
    generation: int
    type: str
    """`consumer` (HTTP, and Kafka's newer protocol), `classic`, or `share`: in queue mode."""


class GroupList(msgspec.Struct, frozen=True, omit_defaults=True):
    groups: list[GroupSummary]
    next_after: str | None = None
    """There are more groups: give this as `after` to go on."""


class GroupMember(msgspec.Struct, frozen=True):
    id: str
    client_id: str
    client_host: str
    instance_id: str | None
    protocol: str
    """`http`, `consumer`, `classic` or `share`."""
    generation: int
    state: str
    topics: list[str]
    topics_regex: str | None
    partitions: list[TopicPartition]
    """What it has."""
    revoking: list[TopicPartition]
    """What it has still to let go."""
    target: list[TopicPartition]
    """What it will have when the group has settled."""


class GroupDetail(msgspec.Struct, frozen=True):
    id: str
    state: str
    type: str
    generation: int
    assignor: str
    """How partitions are divided; in a classic group by its leader."""
    leader: str | None
    topics: list[str]
    """What members name or have."""
    members: list[GroupMember]
    changed_at: str | int | None
    """When its members or topics last changed."""


class GroupDeletedBody(msgspec.Struct, frozen=True):
    group: str
    deleted: bool


class GroupOffset(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    """The next message to process."""
    metadata: str
    committed_at: str | int | None


class GroupOffsets(msgspec.Struct, frozen=True):
    group: str
    generation: int
    topics: dict[str, dict[str, int]]
    """By topic and partition."""
    offsets: list[GroupOffset]
    """The same, with when and why."""


class LagBody(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    committed: int | None
    """The next message to process; null when nothing was ever committed."""
    earliest: int
    end: int
    """The first offset that cannot be read yet."""
    lag: int
    """Offsets from `committed`, or from `earliest` where that is null, to `end`."""
    member_id: str | None
    client_id: str | None


class GroupLag(msgspec.Struct, frozen=True):
    group: str
    state: str
    total_lag: int
    partitions: list[LagBody]


class ResetOffsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    to: Literal["earliest", "latest", "offset", "timestamp", "shift"]
    """Where to; the last three need a `value`."""
    value: Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)] | str | None = None
    """The offset; the time (RFC 3339, or milliseconds since 1970); how many messages on or back."""
    topic: Name | None = None
    """Absent: all topics that the group has committed in."""
    partition: PartitionNumber | None = None
    """Absent: all of the topic."""
    dry_run: bool = False
    """Say what would be done, and do nothing."""


class MovedOffset(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    before: int | None
    after: int


class OffsetsReset(msgspec.Struct, frozen=True):
    group: str
    dry_run: bool
    offsets: list[MovedOffset]


class RebalanceStats(msgspec.Struct, frozen=True):
    """Since the server started."""

    total_rebalances: int
    finished_rebalances: int
    rebalances_by_reason: dict[str, int]
    """Several reasons may have led to one rebalance."""
    partitions_assigned: int
    partitions_revoked: int
    revocation_timeouts: int
    sessions_expired: int
    last_rebalance_duration_ms: int | None
    average_rebalance_duration_ms: float | None
    """Moving, with a weight of 0.3 for the newest."""
    last_rebalance_at: str | int | None
