"""What the server says, as types.

Fields that a newer server adds are passed over, so that an older client understands it.
"""

from typing import Any

import msgspec

from goqueue.client.http.messages import Received, WireMessage, WireTime


class ServerVersion(msgspec.Struct, frozen=True):
    version: str
    compiled: list[str] = []


class BackupCopy(msgspec.Struct, frozen=True):
    backup_id: str
    path: str
    """On the server's machine."""
    topics: int
    partitions: int
    log_bytes: int
    seconds: float


class LogLevel(msgspec.Struct, frozen=True):
    level: str


class Health(msgspec.Struct, frozen=True):
    status: str
    message: str = ""
    uptime_seconds: float = 0.0
    checks: dict[str, str] | None = None
    """Each check by name, when asked for: `pass`, `warning: …`, or what is wrong."""

    @property
    def is_ready(self) -> bool:
        return self.status == "pass"


class TopicSummary(msgspec.Struct, frozen=True):
    name: str
    partitions: int
    topic_id: str = ""
    created_at: WireTime = None
    internal: bool = False
    settings: dict[str, str] = {}
    """What was set for this topic; the rest has its default."""
    messages: int | None = None
    """Offsets in use; None when the server does not know without opening the topic."""
    size_bytes: int | None = None


class TopicPage(msgspec.Struct, frozen=True):
    topics: list[str]
    details: list[TopicSummary] = []
    next_after: str | None = None
    """There are more topics behind this one."""


class Offsets(msgspec.Struct, frozen=True):
    """A partition's: the first one kept, and the end, which the next message gets."""

    earliest: int
    latest: int
    next_offset: int


class Topic(TopicSummary, frozen=True, kw_only=True):
    total_messages: int
    total_size_bytes: int
    partition_offsets: dict[int, Offsets]


class PartitionsAdded(msgspec.Struct, frozen=True):
    old_partition_count: int
    new_partition_count: int


class Setting(msgspec.Struct, frozen=True):
    value: str
    default: str
    is_default: bool
    kind: str = ""
    meaning: str = ""


class Settings(msgspec.Struct, frozen=True):
    topic: str
    settings: dict[str, Setting]


class Problem(msgspec.Struct, frozen=True):
    code: str
    message: str
    details: dict[str, Any] = {}


class Published(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a message went, or why it went nowhere."""

    partition: int | None = None
    offset: int | None = None
    timestamp: WireTime = None
    error: Problem | None = None


class PublishResults(msgspec.Struct, frozen=True):
    results: list[Published]


class WirePage(msgspec.Struct, frozen=True):
    messages: list[WireMessage]
    next_offset: int
    high_watermark: int | None = None
    at_end: bool = False


class WireTopicMessages(msgspec.Struct, frozen=True):
    messages: list[WireMessage]
    cursor: str
    problems: list[str] = []


class Page(msgspec.Struct, frozen=True):
    """Messages in order, and the offset to go on from."""

    messages: list[Received]
    next_offset: int


class Anything(msgspec.Struct, frozen=True):
    """An answer nobody looks into."""


class Sealed(msgspec.Struct, frozen=True):
    """What of a partition may be compacted now."""

    topic_id: str
    first_offset: int
    end_offset: int


class Compacted(msgspec.Struct, frozen=True):
    done: bool
    """False: there was nothing to do, or another compaction is under way."""
    records_before: int = 0
    records_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    dry_run: bool = False
