"""A topic's settings: Kafka's names where Kafka has them, checked in one place.

Clients give text (`{"retention.ms": "3600000"}`); the broker works with a `TopicSettings`.
What a topic does not set comes from the defaults here.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from goqueue.model.errors import InvalidSetting

HOUR_MS: Final = 3_600_000
LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

SettingValue = int | float | str | frozenset[str]


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is one setting; `SETTINGS` holds its name, range and meaning."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    delete_retention_ms: int = 24 * HOUR_MS
    flush: str = "commit"
    flush_ms: int = 1000
    goqueue_expired: str = "dead_letter"
    goqueue_ttl_ms: int = -1
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = HOUR_MS
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 168 * HOUR_MS
    segment_bytes: int = 64 * 1024 * 1024
    segment_ms: int = 168 * HOUR_MS

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def stamps_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


class Setting(msgspec.Struct, frozen=True):
    """One setting as clients see it."""

    name: str
    kind: str  # "int", "long", "double", "string" or "list": Kafka's words
    meaning: str
    parse: Callable[[str], SettingValue]

    @property
    def field(self) -> str:
        return self.name.replace(".", "_")

    @property
    def default(self) -> SettingValue:
        value: SettingValue = getattr(DEFAULTS, self.field)
        return value


def _whole(low: int, high: int) -> Callable[[str], SettingValue]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def _ratio(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ValueError("must be between 0 and 1")
    return value


def _one_of(*choices: str) -> Callable[[str], SettingValue]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse


def _policies(text: str) -> frozenset[str]:
    chosen = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not chosen or not chosen <= {"delete", "compact"}:
        raise ValueError("must be delete, compact, or compact,delete")
    return chosen


_SETTINGS = [
    Setting(
        "cleanup.policy",
        "list",
        "What happens to old data: `delete` whole segments by age and size, `compact` to the last"
        " value of each key, or both.",
        _policies,
    ),
    Setting(
        "compression.type",
        "string",
        "`producer` keeps batches as they came; a codec's name makes the broker re-compress"
        " batches that use another.",
        _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    Setting(
        "delete.retention.ms",
        "long",
        "How long a tombstone stays readable in a compacted topic.",
        _whole(0, LONG_MAX),
    ),
    Setting(
        "flush",
        "string",
        "`commit`: a producer that asked for acks=all is answered after fsync, and readers see"
        " only what is synced. `interval`: synced every flush.ms. `never`: left to the kernel.",
        _one_of("commit", "interval", "never"),
    ),
    Setting(
        "flush.ms",
        "long",
        "The longest a written batch waits for fsync when nobody waits for it.",
        _whole(1, LONG_MAX),
    ),
    Setting(
        "goqueue.expired",
        "string",
        "What a queue does with messages that outlived their time: to the dead letters"
        " (`dead_letter`), or away with them (`drop`).",
        _one_of("dead_letter", "drop"),
    ),
    Setting(
        "goqueue.ttl.ms",
        "long",
        "How long a message without `gq-ttl-ms` is worth handing out to a queue's consumers; -1 for"
        " ever. Readers of the stream see it all the same, until retention deletes it.",
        _whole(-1, LONG_MAX),
    ),
    Setting(
        "index.interval.bytes",
        "int",
        "One index entry per so many bytes of log: smaller finds offsets faster, larger saves"
        " room.",
        _whole(64, INT_MAX),
    ),
    Setting(
        "max.compaction.lag.ms",
        "long",
        "The longest a record stays uncompacted once its segment is closed.",
        _whole(1, LONG_MAX),
    ),
    Setting(
        "max.message.bytes",
        "int",
        "The largest record batch that is accepted.",
        _whole(64, 1_000_000_000),
    ),
    Setting(
        "message.timestamp.after.max.ms",
        "long",
        "How far in the future a producer's timestamp may lie.",
        _whole(0, LONG_MAX),
    ),
    Setting(
        "message.timestamp.before.max.ms",
        "long",
        "How far in the past a producer's timestamp may lie.",
        _whole(0, LONG_MAX),
    ),
    Setting(
        "message.timestamp.type",
        "string",
        "`CreateTime` keeps the producer's time stamps, `LogAppendTime` sets the broker's.",
        _one_of("CreateTime", "LogAppendTime"),
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        "double",
        "Compact when so large a share of the closed log is not yet compacted.",
        _ratio,
    ),
    Setting(
        "min.compaction.lag.ms",
        "long",
        "The shortest time a record stays uncompacted.",
        _whole(0, LONG_MAX),
    ),
    Setting(
        "min.insync.replicas",
        "int",
        "Replicas that must have a batch before acks=all is answered.",
        _whole(1, INT_MAX),
    ),
    Setting(
        "retention.bytes",
        "long",
        "Delete the oldest segments of a partition beyond this size; -1 for no limit.",
        _whole(-1, LONG_MAX),
    ),
    Setting(
        "retention.ms",
        "long",
        "Delete segments whose newest record is older than this; -1 for no limit.",
        _whole(-1, LONG_MAX),
    ),
    Setting(
        "segment.bytes",
        "int",
        "Close a segment at this size. Retention and compaction work on closed segments.",
        _whole(1024, INT_MAX),
    ),
    Setting(
        "segment.ms",
        "long",
        "Close a segment after this time even if it is not full.",
        _whole(1, LONG_MAX),
    ),
]

SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _SETTINGS}
DEFAULTS: Final = TopicSettings()


def topic_settings(overrides: Mapping[str, str]) -> TopicSettings:
    """The defaults with `overrides`; raises `InvalidSetting` that names all that is wrong."""
    values: dict[str, SettingValue] = {}
    problems: list[str] = []
    for name, text in overrides.items():
        setting = SETTINGS.get(name)
        if setting is None:
            problems.append(f"{name} is not a topic setting")
            continue
        try:
            values[setting.field] = setting.parse(text)
        except ValueError as error:
            problems.append(f"{name}={text!r}: {error}")
    if problems:
        raise InvalidSetting("; ".join(problems))
    return msgspec.structs.replace(DEFAULTS, **values)


def setting_text(value: SettingValue) -> str:
    """A value as clients write it."""
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
