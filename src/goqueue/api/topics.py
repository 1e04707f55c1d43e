"""Topics, their settings and compaction as JSON."""

from typing import Annotated, Final

import msgspec

from goqueue.api.groups import OffsetNumber
from goqueue.api.messages import INT32_MAX

INT16_MAX: Final = 32_767
RETENTION_HOURS_MAX: Final = 24 * 366 * 1000
SettingInput = str | int | float | bool


class CreateTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    """1 to 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`."""
    num_partitions: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)] | None = None
    """The server's default (3) when absent."""
    partitions: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)] | None = None
    """The same as `num_partitions`."""
    replication_factor: Annotated[int, msgspec.Meta(ge=1, le=INT16_MAX)] | None = None
    """Replicas of each partition, on as many nodes; the server's default when absent."""
    retention_hours: Annotated[int, msgspec.Meta(ge=1, le=RETENTION_HOURS_MAX)] | None = None
    """Short for the setting `retention.ms`."""
    settings: dict[str, SettingInput] = {}
    """By their Kafka names; `GET /topics/{topic}/settings` lists them with their meaning.  Those in
    `.ms` are milliseconds or texts such as `7d`."""
    validate_only: bool = False
    """Check everything and change nothing."""


class TopicCreated(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    partitions: int
    settings: dict[str, str]
    created: bool
    """False with `validate_only`."""


class TopicSummary(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    partitions: int
    created_at: str | int | None
    internal: bool
    settings: dict[str, str]
    """What was set for this topic; the rest has its default."""
    messages: int | None
    """Offsets in use, also those compacted away; null when a partition was not used since the
    server was started. `GET /topics/{topic}` opens them and knows."""
    size_bytes: int | None
    """On disk; null as above."""


class TopicList(msgspec.Struct, frozen=True, omit_defaults=True):
    topics: list[str]
    """Names in order."""
    details: list[TopicSummary] | None = None
    """With `verbose`: more about each."""
    next_after: str | None = None
    """There are more topics: give this as `after` to go on."""


class Offsets(msgspec.Struct, frozen=True):
    earliest: int
    """The first offset there is."""
    latest: int
    """The end, as in Kafka: what the next message will get; `earliest` when there is none."""
    next_offset: int
    """The same as `latest`."""


class TopicDetail(msgspec.Struct, frozen=True):
    name: str
    topic_id: str
    partitions: int
    created_at: str | int | None
    internal: bool
    settings: dict[str, str]
    total_messages: int
    total_size_bytes: int
    partition_offsets: dict[int, Offsets]


class TopicDeleted(msgspec.Struct, frozen=True):
    name: str
    deleted: bool


class PartitionInfo(msgspec.Struct, frozen=True):
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    leader_epoch: int
    earliest: int
    latest: int
    next_offset: int
    high_watermark: int
    """Readers see everything below it."""
    size_bytes: int
    segments: int
    read_only: str | None
    """Why it takes no messages; null when it does."""


class PartitionList(msgspec.Struct, frozen=True):
    topic: str
    partitions: list[PartitionInfo]


class AddPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    count: Annotated[int, msgspec.Meta(ge=1, le=INT32_MAX)]
    """Partitions in all, afterwards."""
    validate_only: bool = False


class PartitionsAdded(msgspec.Struct, frozen=True):
    success: bool
    topic_name: str
    old_partition_count: int
    new_partition_count: int
    partitions_added: int


class SettingInfo(msgspec.Struct, frozen=True):
    value: str
    default: str
    is_default: bool
    kind: str
    """`int`, `long`, `double`, `string` or `list`."""
    meaning: str


class SettingList(msgspec.Struct, frozen=True):
    topic: str
    settings: dict[str, SettingInfo]


class ChangeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    set: dict[str, SettingInput] = {}
    """New values by name."""
    unset: list[str] = []
    """Names that get their default back."""
    validate_only: bool = False


class Sealed(msgspec.Struct, frozen=True):
    topic_id: str
    """Of this life of the topic: `compaction` wants it back."""
    first_offset: int
    end_offset: int
    """Everything below is sealed, committed and old enough to be compacted."""


class Superseded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic_id: str
    first_offset: OffsetNumber
    """At or below the log's first offset."""
    end_offset: OffsetNumber
    superseded: str
    """A bit an offset, lowest bit first: 1 when a later record below `end_offset` has its key.
    Compressed with zlib, in base64."""
    dry_run: bool = False


class CompactedBody(msgspec.Struct, frozen=True):
    done: bool
    """False when there was nothing to compact, or another compaction is under way."""
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    dry_run: bool = False
