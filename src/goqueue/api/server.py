"""The server itself as JSON: health, version, log level, backups."""

import msgspec


class HealthBody(msgspec.Struct, frozen=True, omit_defaults=True):
    status: str
    """`pass` or `fail`."""
    timestamp: str | int | None
    uptime_seconds: float
    message: str
    checks: dict[str, str] | None = None
    """With `verbose`: each check by name: `pass`, `warning: …`, or what is wrong."""

    @property
    def is_ready(self) -> bool:
        return self.status == "pass"


class SimpleHealth(msgspec.Struct, frozen=True):
    status: str
    timestamp: str | int | None


class VersionBody(msgspec.Struct, frozen=True):
    version: str
    compiled: list[str]
    """Hot modules that run compiled."""


class TopicStats(msgspec.Struct, frozen=True):
    name: str
    partitions: int
    open_partitions: int
    """Partitions used since the start; messages and bytes are theirs."""
    total_messages: int
    total_size_bytes: int


class StatsBody(msgspec.Struct, frozen=True):
    node_id: int
    cluster_id: str
    uptime_seconds: float
    topics: int
    partitions: int
    open_partitions: int
    total_size_bytes: int
    topic_stats: dict[str, TopicStats]


class LogLevel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: str
    """`debug`, `info`, `warning` or `error`; `debug` has a line for each request."""


class QuorumMember(msgspec.Struct, frozen=True):
    name: str
    address: str
    """Where its clients reach it; empty for this node itself."""
    is_leader: bool
    problem: str
    """Why it takes no part; empty when it does."""


class QuorumBody(msgspec.Struct, frozen=True):
    """What the metadata's log stands on."""

    log: str
    is_controller: bool
    """Whether this node decides the metadata. If not, it only follows what another one decides."""
    term: int
    """Of the controller, where nodes elect it; else the last one that this node had."""
    end_offset: int
    committed_offset: int
    members: list[QuorumMember]
    controller_id: int | None = None
    """The node that decides the metadata; null when none does, or it is not known."""


class BackupBody(msgspec.Struct, frozen=True):
    backup_id: str
    path: str
    """On the server's machine: a data directory of the moment, to be copied away."""
    topics: int
    partitions: int
    log_bytes: int
    seconds: float


class BackupRemoved(msgspec.Struct, frozen=True):
    backup_id: str
