"""A topic's settings: Kafka's names where Kafka has them, checked in one place.

Clients give text (`{"retention.ms": "3600000"}`); the broker works with a `TopicSettings`.
What a topic does not set comes from the defaults here.

Some of Kafka's settings are about what is not here: other replicas, tiered storage, preallocated
files.  Charts, Terraform files and operators set them as a matter of course, so they are taken,
checked and shown like the others; `IDLE` marks them.  Only a value that promises what would not
happen is refused.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from goqueue.model.durations import parse_duration_ms
from goqueue.model.errors import InvalidSetting

HOUR_MS: Final = 3_600_000
MESSAGE_BYTES_MAX: Final = 1_000_000_000  # that `max.message.bytes` may allow
LONG_MAX: Final = 2**63 - 1
INT_MAX: Final = 2**31 - 1

SettingValue = bool | int | float | str | frozenset[str]


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Each field is one setting; `SETTINGS` holds its name, range and meaning."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * HOUR_MS
    file_delete_delay_ms: int = 60_000
    flush: str = "commit"
    flush_messages: int = LONG_MAX
    flush_ms: int = 1000
    follower_replication_throttled_replicas: frozenset[str] = frozenset()
    goqueue_delayed_compressed: str = "auto"
    goqueue_delayed_messages_max: int = 1_000_000
    goqueue_expired: str = "dead_letter"
    goqueue_schema_invalid: str = "refuse"
    goqueue_schema_key_subject: str = "topic"
    goqueue_schema_key_validation: str = "off"
    goqueue_schema_subject: str = "topic"
    goqueue_schema_validation: str = "off"
    goqueue_table_decode: str = "none"
    goqueue_table_format: str = "none"
    goqueue_trace_enable: bool = True
    goqueue_trace_sample_rate: float = 1.0
    goqueue_ttl_ms: int = -1
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: frozenset[str] = frozenset()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = HOUR_MS
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 168 * HOUR_MS
    segment_bytes: int = 64 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 168 * HOUR_MS
    unclean_leader_election_enable: bool = False

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes_old(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def validates(self) -> bool:
        """Keys or values, against their schemas."""
        return (
            self.goqueue_schema_validation != "off" or self.goqueue_schema_key_validation != "off"
        )

    @property
    def dead_letters_invalid(self) -> bool:
        """What is not as its schema says goes to the dead-letter topic."""
        return self.goqueue_schema_invalid == "dead_letter"

    @property
    def stamps_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


class Setting(msgspec.Struct, frozen=True):
    """One setting as clients see it."""

    name: str
    kind: str  # "boolean", "int", "long", "double", "string" or "list": Kafka's words
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
        try:
            value = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def _duration_ms(low: int, high: int) -> Callable[[str], SettingValue]:
    """Milliseconds, or a duration as `7d`."""
    milliseconds = _whole(low, high)

    def parse(text: str) -> SettingValue:
        try:
            int(text)
        except ValueError:
            text = str(parse_duration_ms(text))
        return milliseconds(text)

    return parse


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("must be a number") from None
    if not 0.0 <= value <= 1.0:
        raise ValueError("must be between 0 and 1")
    return value


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("must be true or false")


def _never(reason: str) -> Callable[[str], SettingValue]:
    """A switch that cannot be on."""

    def parse(text: str) -> bool:
        if _boolean(text):
            raise ValueError(f"must be false: {reason}")
        return False

    return parse


def _gzip_level(text: str) -> int:
    level = int(text)
    if level != -1 and not 1 <= level <= 9:
        raise ValueError("must be between 1 and 9, or -1 for the default")
    return level


_THROTTLED = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled_replicas(text: str) -> frozenset[str]:
    chosen = frozenset(part.strip() for part in text.split(",") if part.strip())
    if chosen != {"*"} and not all(map(_THROTTLED.fullmatch, chosen)):
        raise ValueError("must be * or a list of partition:broker")
    return chosen


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


IDLE: Final = " Taken and shown for Kafka's tools; without effect here, since "
_NO_TIERS: Final = f"{IDLE}there is no tiered storage."

_SETTINGS = [
    Setting(
        "cleanup.policy",
        "list",
        "What happens to old data: `delete` whole segments by age and size, `compact` to the last"
        " value of each key, or both.",
        _policies,
    ),
    Setting(
        "compression.gzip.level",
        "int",
        f"How hard to compress with gzip.{IDLE}the broker uses its own level to compress a batch.",
        _gzip_level,
    ),
    Setting(
        "compression.lz4.level",
        "int",
        f"How hard to compress with lz4.{IDLE}the broker uses its own level to compress a batch.",
        _whole(1, 17),
    ),
    Setting(
        "compression.type",
        "string",
        "`producer` keeps batches as they came; a codec's name makes the broker re-compress"
        " batches that use another.",
        _one_of("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    ),
    Setting(
        "compression.zstd.level",
        "int",
        f"How hard to compress with zstd.{IDLE}the broker uses its own level to compress a batch.",
        _whole(-131_072, 22),
    ),
    Setting(
        "delete.retention.ms",
        "long",
        "How long a tombstone stays readable in a compacted topic.",
        _duration_ms(0, LONG_MAX),
    ),
    Setting(
        "file.delete.delay.ms",
        "long",
        f"How long files stay after their segment is deleted.{IDLE}they are removed at once.",
        _duration_ms(0, LONG_MAX),
    ),
    Setting(
        "flush",
        "string",
        "`commit`: a producer that asked for acks=all is answered after fsync, and readers see"
        " only what is synced. `interval`: synced every flush.ms. `never`: left to the kernel.",
        _one_of("commit", "interval", "never"),
    ),
    Setting(
        "flush.messages",
        "long",
        "An fsync begins as soon as so many messages of a partition are not synced, whatever"
        " `flush` says. acks=all with `flush=commit` waits for it; acks=1 and the other kinds of"
        " `flush` do not. Fewer lose less in a power cut, and cost an fsync each time.",
        _whole(1, LONG_MAX),
    ),
    Setting(
        "flush.ms",
        "long",
        "Longest time until a written batch is synced if no producer waits for it.",
        _duration_ms(1, LONG_MAX),
    ),
    Setting(
        "follower.replication.throttled.replicas",
        "list",
        "Replicas that copy no faster than follower.replication.throttled.rate of their node while"
        " they are not in sync, as partition:broker, or * for all.",
        _throttled_replicas,
    ),
    Setting(
        "goqueue.delayed.compressed",
        "string",
        "Which compressed batches of Kafka clients are decompressed to look for the headers"
        " `gq-delay-ms` and `gq-deliver-at`: `always` all; `auto` all, once the topic had a delayed"
        " message, and before that as many as take 10 % of a core.",
        _one_of("auto", "always"),
    ),
    Setting(
        "goqueue.delayed.messages.max",
        "long",
        "How many delayed messages of the topic may wait; one more is refused. Each leader allows"
        " the part that it leads of the topic's partitions. 0: none are delayed, and the headers"
        " `gq-delay-ms` and `gq-deliver-at` mean nothing.",
        _whole(0, LONG_MAX),
    ),
    Setting(
        "goqueue.expired",
        "string",
        "What happens to expired messages of a queue: `dead_letter`, or `drop`.",
        _one_of("dead_letter", "drop"),
    ),
    Setting(
        "goqueue.schema.invalid",
        "string",
        "What happens to a record whose key or value is not as its schema says: `refuse`, with its"
        " whole batch; `dead_letter`: it goes to the dead-letter topic, and the rest is written.",
        _one_of("refuse", "dead_letter"),
    ),
    Setting(
        "goqueue.schema.key.subject",
        "string",
        "The subject that a key's schema must be registered under: `topic` (`TOPIC-key`), `record`"
        " (the record's full name), or `topic_record` (`TOPIC-RECORD`).",
        _one_of("topic", "record", "topic_record"),
    ),
    Setting(
        "goqueue.schema.key.validation",
        "string",
        "What the broker checks of a key before its record is written: `off`; `id`, that it names a"
        " schema which is registered under the subject; `full`, also that its payload is what the"
        " schema describes. A key that names no schema is checked against the latest of"
        " `TOPIC-key`, and refused with `id`. A record without a key passes.",
        _one_of("off", "id", "full"),
    ),
    Setting(
        "goqueue.schema.subject",
        "string",
        "The subject that a value's schema must be registered under: `topic` (`TOPIC-value`),"
        " `record` (the record's full name), or `topic_record` (`TOPIC-RECORD`).",
        _one_of("topic", "record", "topic_record"),
    ),
    Setting(
        "goqueue.schema.validation",
        "string",
        "What the broker checks of a value before it is written: `off`; `id`, that it names a"
        " schema which is registered under the subject; `full`, also that its payload is what the"
        " schema describes. A value that names no schema is checked against the latest of"
        " `TOPIC-value`, and refused with `id`.",
        _one_of("off", "id", "full"),
    ),
    Setting(
        "goqueue.table.decode",
        "string",
        "What becomes of values in the topic's table: `none` keeps them as bytes, `json` makes a"
        " column of each field, `registry` has the columns of the subject's latest schema.",
        _one_of("none", "json", "registry"),
    ),
    Setting(
        "goqueue.table.format",
        "string",
        "Whether the topic is kept as a table, and in which format: `none`, `parquet`, `delta` or"
        " `iceberg`. `goqueue pipeline serve DIR --tables PLACE` does it, exactly once, and leaves"
        " the table there when the setting is taken away.",
        _one_of("none", "parquet", "delta", "iceberg"),
    ),
    Setting(
        "goqueue.trace.enable",
        "boolean",
        "Whether the journeys of the topic's messages are recorded (`goqueue trace`), where the"
        " server's `traces.enabled` allows it.",
        _boolean,
    ),
    Setting(
        "goqueue.trace.sample.rate",
        "double",
        "Part of the messages whose journeys are recorded, 0 to 1; not more than the server's"
        " `traces.sample_rate`. Messages are chosen 256 at a time, by their offsets.",
        _ratio,
    ),
    Setting(
        "goqueue.ttl.ms",
        "long",
        "Time to live of messages without the header `gq-ttl-ms`, in queues; -1: no limit."
        " Consumers of the stream see expired messages until retention deletes them.",
        _duration_ms(-1, LONG_MAX),
    ),
    Setting(
        "index.interval.bytes",
        "int",
        "Bytes of log per index entry: smaller values find offsets faster, larger ones save space.",
        _whole(64, INT_MAX),
    ),
    Setting(
        "leader.replication.throttled.replicas",
        "list",
        "Replicas that send no faster than leader.replication.throttled.rate of their node to those"
        " that are not in sync, as partition:broker, or * for all.",
        _throttled_replicas,
    ),
    Setting(
        "local.retention.bytes",
        "long",
        f"How much stays on local disk beside the tiers; -2: retention.bytes.{_NO_TIERS}",
        _whole(-2, LONG_MAX),
    ),
    Setting(
        "local.retention.ms",
        "long",
        f"How long data stays on local disk beside the tiers; -2: retention.ms.{_NO_TIERS}",
        _duration_ms(-2, LONG_MAX),
    ),
    Setting(
        "max.compaction.lag.ms",
        "long",
        "The longest a record stays uncompacted once its segment is closed.",
        _duration_ms(1, LONG_MAX),
    ),
    Setting(
        "max.message.bytes",
        "int",
        "The largest record batch that is accepted.",
        _whole(64, MESSAGE_BYTES_MAX),
    ),
    Setting(
        "message.timestamp.after.max.ms",
        "long",
        "How far in the future a producer's timestamp may lie.",
        _duration_ms(0, LONG_MAX),
    ),
    Setting(
        "message.timestamp.before.max.ms",
        "long",
        "How far in the past a producer's timestamp may lie.",
        _duration_ms(0, LONG_MAX),
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
        _duration_ms(0, LONG_MAX),
    ),
    Setting(
        "min.insync.replicas",
        "int",
        "Replicas that must have a batch before acks=all is answered and readers see it. By default"
        " the majority of the replication factor, so 1 for a server without peers; more than the"
        " replication factor is refused.",
        _whole(1, INT_MAX),
    ),
    Setting(
        "preallocate",
        "boolean",
        f"Reserve a segment's room on disk before it is filled.{IDLE}files grow as they are"
        " written; `storage.free_bytes_min` of the server keeps room free.",
        _boolean,
    ),
    Setting(
        "remote.log.copy.disable",
        "boolean",
        f"Copy nothing more to the tiers.{_NO_TIERS}",
        _boolean,
    ),
    Setting(
        "remote.log.delete.on.disable",
        "boolean",
        f"Delete what is in the tiers when they are turned off.{_NO_TIERS}",
        _boolean,
    ),
    Setting(
        "remote.storage.enable",
        "boolean",
        "Whether closed segments move to tiered storage. There is none, so it can only be false.",
        _never("there is no tiered storage; `goqueue pipeline archive` keeps topics as tables"),
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
        _duration_ms(-1, LONG_MAX),
    ),
    Setting(
        "segment.bytes",
        "int",
        "Close a segment at this size. Retention and compaction work on closed segments.",
        _whole(1024, INT_MAX),
    ),
    Setting(
        "segment.index.bytes",
        "int",
        f"The largest index of a segment.{IDLE}an index grows with its segment.",
        _whole(4, INT_MAX),
    ),
    Setting(
        "segment.jitter.ms",
        "long",
        "Random jitter that is taken off segment.ms, so that segments do not close together."
        f"{IDLE}idle segments are looked at one after the other.",
        _duration_ms(0, LONG_MAX),
    ),
    Setting(
        "segment.ms",
        "long",
        "Close a segment after this time even if it is not full.",
        _duration_ms(1, LONG_MAX),
    ),
    Setting(
        "unclean.leader.election.enable",
        "boolean",
        f"Whether a replica that lags may become the leader.{IDLE}there is one node.",
        _boolean,
    ),
]

SETTINGS: Final[Mapping[str, Setting]] = {setting.name: setting for setting in _SETTINGS}
DEFAULTS: Final = TopicSettings()


def majority(replication_factor: int) -> int:
    """The default of `min.insync.replicas`: what is committed outlives the loss of a minority."""
    return replication_factor // 2 + 1


def topic_settings(overrides: Mapping[str, str], replication_factor: int = 1) -> TopicSettings:
    """The defaults with `overrides`; raises `InvalidSetting` that names all that is wrong."""
    values: dict[str, SettingValue] = {"min_insync_replicas": majority(replication_factor)}
    problems: list[str] = []
    for name, text in overrides.items():
        setting = SETTINGS.get(name)
        if setting is None:
            close = difflib.get_close_matches(name, SETTINGS, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            problems.append(f"{name} is not a topic setting{meant}")
            continue
        try:
            values[setting.field] = setting.parse(text)
        except ValueError as error:
            problems.append(f"{name}={text!r}: {error}")
    if problems:
        raise InvalidSetting("; ".join(problems))
    return msgspec.structs.replace(DEFAULTS, **values)


def stored_text(name: str, text: str) -> str:
    """What is kept of a setting as it was given: durations are kept in milliseconds.

    A text that is wrong is left as it is, for `topic_settings` to refuse.
    """
    if not name.endswith(".ms") or name not in SETTINGS:
        return text
    try:
        return str(SETTINGS[name].parse(text))
    except ValueError:
        return text


def setting_text(value: SettingValue) -> str:
    """A value as clients write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)
