"""What goes in and out of the operations on consumer groups, and what they may refuse with."""

from typing import Annotated, Final, Literal

import msgspec
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import PathParameter, QueryParameter

from goqueue.broker.groups.http_requests import TopicPartition
from goqueue.groups.errors import InvalidGroupId
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import GroupId
from goqueue.server.http.errors import ErrorBody, responses, write_responses
from goqueue.server.http.parsing import INT64_MAX, DurationMs, PositiveDurationMs, TakesDurations
from goqueue.server.http.routes.message_bodies import INT32_MAX, Encoding, HeaderBody

NAME_LENGTH_MAX: Final = 249
TOPICS_MAX: Final = 1_000  # of one member
PATTERN_LENGTH_MAX: Final = 1_000
METADATA_LENGTH_MAX: Final = 4_096
AUTO_COMMIT_MS_DEFAULT: Final = 5_000
AUTO_COMMIT_MS_MAX: Final = 3_600_000
GROUP_PATTERN: Final = "^[^/\\u0000-\\u001f\\u007f]{1,249}$"

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
OptionalName = Annotated[str, msgspec.Meta(max_length=NAME_LENGTH_MAX)]
Generation = Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
PartitionNumber = Annotated[int, msgspec.Meta(ge=0, le=INT32_MAX)]
OffsetNumber = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]

GroupPath = Annotated[
    str,
    PathParameter(
        description="The group's name: any text without a slash.",
        schema_extra={"pattern": GROUP_PATTERN, "examples": ["billing"]},
    ),
]
MemberQuery = Annotated[
    str, QueryParameter(min_length=1, max_length=NAME_LENGTH_MAX, description="As `join` gave it.")
]


def group_name(text: str) -> GroupId:
    if not 0 < len(text) <= NAME_LENGTH_MAX or any(ord(c) < 32 or ord(c) == 127 for c in text):
        raise InvalidGroupId(
            f"group {text[:60]!r}: a name has 1 to {NAME_LENGTH_MAX} characters, none of them"
            " a control character"
        )
    return GroupId(text)


# --- what may be refused ------------------------------------------------------------------------

_MEANINGS: Final = {
    403: "A page of another origin made a browser send this, or the partition is another member's.",
    404: "No such group, member, topic or partition. A member that is not known joins again.",
    409: "The generation is old, the group has members or is in the other mode, or another process"
    " has taken the seat.",
}


def group_responses(*statuses: int) -> dict[int, ResponseSpec]:
    return {**responses(*statuses), **_described(statuses)}


def group_write_responses(*statuses: int) -> dict[int, ResponseSpec]:
    return {**write_responses(*statuses), **_described((403, *statuses))}


def _described(statuses: tuple[int, ...]) -> dict[int, ResponseSpec]:
    return {
        status: ResponseSpec(ErrorBody, description=_MEANINGS[status], generate_examples=False)
        for status in statuses
        if status in _MEANINGS
    }


# --- members: what comes in ---------------------------------------------------------------------


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
    """Silence after which the member is taken for dead; the server's 30 s when absent."""
    rebalance_timeout_ms: PositiveDurationMs | None = None
    """Time to let partitions go when told to; the server's 60 s when absent."""
    assignor: Literal["uniform", "range", "roundrobin"] | None = None
    """How partitions are divided; what most members ask for is done. `uniform` when absent."""


def check_join(data: JoinGroup) -> None:
    """The ranges of durations, however they were written."""
    for name, high in (
        ("auto_commit_interval_ms", AUTO_COMMIT_MS_MAX),
        ("session_timeout_ms", INT32_MAX),
        ("rebalance_timeout_ms", INT32_MAX),
    ):
        value = getattr(data, name)
        low = int(name != "auto_commit_interval_ms")
        if value is not None and not low <= value <= high:
            raise InvalidRequest(f"{name}: {value} ms; {low} to {high} are possible")


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
    """What was let go; absent: all that was to be."""


class CommitOffsets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    offsets: dict[str, dict[PartitionNumber, OffsetNumber]]
    """By topic and partition: the offset of the next message to process."""
    member_id: OptionalName = ""
    """Absent: set offsets from outside, which only a group without members allows."""
    generation: Generation | None = None
    """As the last answer gave it; required with `member_id`."""
    metadata: Annotated[str, msgspec.Meta(max_length=METADATA_LENGTH_MAX)] = ""
    """A note to keep with the offsets."""


# --- members: what goes out ---------------------------------------------------------------------


class MembershipBody(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    mode: Mode
    generation: int
    """To be said with the next request."""
    state: str
    """`Stable`; `Revoking`: has to let partitions go; `Waiting`: others have not let go yet."""
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
    """Partitions that still have to be let go."""


class LeftBody(msgspec.Struct, frozen=True):
    member_id: str
    left: bool


class CommittedBody(msgspec.Struct, frozen=True):
    group: str
    offsets: dict[str, dict[str, int]]
