"""Settings as Kafka's admin clients see them: a topic's own, and the server's.

A topic's setting has up to three layers, of which the first that is there counts:

    set for the topic  >  `topics.settings` of the server  >  the default

The server's settings are read at start and shown read-only, by Kafka's name where Kafka has one and
by our own (`storage.free_bytes_min`) where it has none.
"""

import enum
import os.path
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from goqueue.cluster import Topic
from goqueue.model.config import Address, Config
from goqueue.model.settings import SETTINGS, Setting, setting_text


class Source(enum.IntEnum):
    """Where a value comes from; the protocol's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ValueType(enum.IntEnum):
    """The protocol's numbers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Synonym(msgspec.Struct, frozen=True):
    """One layer: a name and value that would count if those before it were not there."""

    name: str
    value: str
    source: Source


class Entry(msgspec.Struct, frozen=True):
    name: str
    value: str
    source: Source
    type: ValueType
    is_read_only: bool = False
    synonyms: tuple[Synonym, ...] = ()
    documentation: str | None = None


# --- topics -----------------------------------------------------------------------------------

_TYPES: Final = {
    "boolean": ValueType.BOOLEAN,
    "int": ValueType.INT,
    "long": ValueType.LONG,
    "double": ValueType.DOUBLE,
    "string": ValueType.STRING,
    "list": ValueType.LIST,
}

# What Kafka calls the server's default of a topic setting; `log.` before the name for the others.
_SERVER_NAMES: Final = {
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "follower.replication.throttled.replicas": "follower.replication.throttled.replicas",
    "goqueue.expired": "goqueue.expired",
    "goqueue.ttl.ms": "goqueue.ttl.ms",
    "leader.replication.throttled.replicas": "leader.replication.throttled.replicas",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "remote.log.copy.disable": "remote.log.copy.disable",
    "remote.log.delete.on.disable": "remote.log.delete.on.disable",
    "remote.storage.enable": "remote.storage.enable",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}


def topic_entries(config: Config, topic: Topic) -> list[Entry]:
    return [_topic_entry(config, topic, setting) for setting in SETTINGS.values()]


def _topic_entry(config: Config, topic: Topic, setting: Setting) -> Entry:
    layers = _server_layers(config, setting)
    if setting.name in topic.overrides:
        text = setting_text(getattr(topic.settings, setting.field))
        layers = (Synonym(setting.name, text, Source.TOPIC), *layers)
    return _entry_of(setting.name, setting, layers)


def _server_layers(config: Config, setting: Setting) -> tuple[Synonym, ...]:
    name = _SERVER_NAMES.get(setting.name, f"log.{setting.name}")
    default = Synonym(name, setting_text(setting.default), Source.DEFAULT)
    given = config.topics.settings.get(setting.name)
    if given is None:
        return (default,)
    return (Synonym(name, setting_text(setting.parse(given)), Source.STATIC_BROKER), default)


def _entry_of(
    name: str, setting: Setting, layers: tuple[Synonym, ...], *, is_read_only: bool = False
) -> Entry:
    return Entry(
        name=name,
        value=layers[0].value,
        source=layers[0].source,
        type=_TYPES[setting.kind],
        is_read_only=is_read_only,
        synonyms=layers,
        documentation=setting.meaning,
    )


# --- the server -------------------------------------------------------------------------------

_KAFKA_NAMES: Final = {
    "node_id": "node.id",
    "data_dir": "log.dirs",
    "kafka.listen": "listeners",
    "kafka.advertised": "advertised.listeners",
    "kafka.request_bytes_max": "socket.request.max.bytes",
    "kafka.connections_max": "max.connections",
    "kafka.idle_ms": "connections.max.idle.ms",
    "kafka.fetch_bytes_max": "fetch.max.bytes",
    "http.advertised": "goqueue.http.address",  # `HTTP_ADDRESS`
    "kafka.fetch_sessions_max": "max.incremental.fetch.session.cache.slots",
    "topics.auto_create": "auto.create.topics.enable",
    "topics.partitions": "num.partitions",
    "storage.checkpoint_ms": "log.flush.offset.checkpoint.interval.ms",
    "storage.retention_check_ms": "log.retention.check.interval.ms",
    "storage.compaction_check_ms": "log.cleaner.backoff.ms",
    "storage.compaction_memory_bytes": "log.cleaner.dedupe.buffer.size",
}

# Facts without a setting, which tools look up to learn what they may offer their users.
_FACTS: Final = {
    "default.replication.factor": ("1", ValueType.INT),
    "delete.topic.enable": ("true", ValueType.BOOLEAN),
    "inter.broker.protocol.version": ("4.0", ValueType.STRING),
}


HTTP_ADDRESS: Final = "goqueue.http.address"


def broker_entries(config: Config, address: Address, http_address: Address | None) -> list[Entry]:
    """All of the server's settings; the addresses are where the client that asks reaches it."""
    is_tls = bool(config.tls.cert_file)
    scheme = "https" if is_tls else "http"
    protocol = f"{'SASL_' if config.auth.enabled else ''}{'SSL' if is_tls else 'PLAINTEXT'}"
    addresses = {
        "kafka.advertised": f"{protocol}://{address}",
        "http.advertised": f"{scheme}://{http_address}" if http_address else "",
    }
    entries = [*_fact_entries(config), *_config_entries(config, addresses)]
    for setting in SETTINGS.values():
        layers = _server_layers(config, setting)
        entries.append(_entry_of(layers[0].name, setting, layers, is_read_only=True))
    return sorted(entries, key=lambda entry: entry.name)


def _fact_entries(config: Config) -> Iterator[Entry]:
    yield _read_only("broker.id", str(config.node_id), Source.DEFAULT, ValueType.LONG)
    for name, (value, value_type) in _FACTS.items():
        yield _read_only(name, value, Source.DEFAULT, value_type)


def _config_entries(config: Config, addresses: Mapping[str, str]) -> Iterator[Entry]:
    defaults = dict(_flatten(Config()))
    for path, value in _flatten(config):
        is_given = value != defaults[path] or path in addresses  # one that is worked out, too
        yield _read_only(
            _KAFKA_NAMES.get(path, path),
            addresses[path] if path in addresses else _config_text(path, value),
            Source.STATIC_BROKER if is_given else Source.DEFAULT,
            _type_of(value),
        )


def _flatten(tree: msgspec.Struct, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain setting by its dotted path."""
    for name in tree.__struct_fields__:
        value = getattr(tree, name)
        if isinstance(value, msgspec.Struct):
            yield from _flatten(value, f"{prefix}{name}.")
        elif not isinstance(value, dict):  # `topics.settings` is shown setting by setting
            yield prefix + name, value


def _config_text(path: str, value: Any) -> str:
    match path:
        case "data_dir":
            return absolute(value)
        case "kafka.listen":
            return f"PLAINTEXT://{value}"
        case _ if isinstance(value, list):
            return ",".join(value)
        case _:
            return str(value).lower() if isinstance(value, bool) else str(value)


def absolute(path: str) -> str:
    """A directory as tools show it, whatever ours may be relative to."""
    return os.path.abspath(path)


def _type_of(value: Any) -> ValueType:
    match value:
        case bool():
            return ValueType.BOOLEAN
        case int():
            return ValueType.LONG
        case float():
            return ValueType.DOUBLE
        case list():
            return ValueType.LIST
        case _:
            return ValueType.STRING


def _read_only(name: str, value: str, source: Source, value_type: ValueType) -> Entry:
    layer = Synonym(name, value, source)
    return Entry(name, value, source, value_type, is_read_only=True, synonyms=(layer,))
