"""Settings of a queue group, stored in its record.  Docstrings are the reference texts."""

from typing import Literal

import msgspec

from goqueue.model.settings import TopicSettings
from goqueue.queue.errors import InvalidQueueSetting
from goqueue.queue.lanes import LANES, WEIGHTS

Ordering = Literal["none", "key"]
PriorityMode = Literal["weighted", "strict"]
Start = Literal["earliest", "latest"]
Expired = Literal["topic", "dead_letter", "drop"]
DeliveryDurability = Literal["sync", "async"]
Isolation = Literal["read_committed", "read_uncommitted"]


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    visibility_ms: int = 30_000
    """Visibility time-out: a message that is not acked in this time is redelivered. A consumer may
    ask for another one when it receives."""
    max_failures: int = 5
    """Nacks after which a message is dead-lettered."""
    max_timeouts: int = 20
    """Visibility time-outs after which a message is dead-lettered."""
    max_deliveries: int = 0
    """Deliveries after which a message is dead-lettered, whatever their outcome. 0: no limit.
    Groups that share consumers create have 5."""
    backoff_base_ms: int = 1_000
    """Delay before the first redelivery after a nack."""
    backoff_factor: float = 2.0
    """Factor by which the delay grows with each further failure."""
    backoff_max_ms: int = 60_000
    """Longest delay before a redelivery."""
    backoff_jitter: float = 0.2
    """Random jitter, as a fraction of the delay (0.2 = ±20 %)."""
    max_in_flight_consumer: int = 1_000
    """Most messages in flight at one consumer."""
    max_in_flight_group: int = 100_000
    """Most messages in flight at all consumers of the group."""
    ordering: Ordering = "none"
    """`key`: messages of a key are delivered in order, one at a time. `none`: no order."""
    key_window: int = 10_000
    """How many messages of a partition are skipped at most because their key is in flight."""
    priority: PriorityMode = "weighted"
    """`weighted`: priorities share deliveries by `weights`. `strict`: higher priorities first."""
    weights: tuple[int, ...] = WEIGHTS
    """Weights of the five priorities, from `critical` to `background`."""
    starvation_ms: int = 30_000
    """A priority that has waited this long gets one message out of turn."""
    fairness: str = ""
    """Header whose values share a priority equally, such as a tenant. Empty: none."""
    fairness_window: int = 1_000
    """How many messages per partition and priority are scanned for fairness."""
    ttl_ms: int = 0
    """Time to live of messages without the header `gq-ttl-ms`. 0: the topic's `goqueue.ttl.ms`."""
    expired: Expired = "topic"
    """What happens to expired messages: `dead_letter`, `drop`, or as the topic's setting
    `goqueue.expired` says (`topic`)."""
    start: Start = "earliest"
    """Start position in a partition that is new to the group."""
    delivery_durability: DeliveryDurability = "sync"
    """`sync`: messages are returned after their delivery is synced to disk. `async`: before it.
    Lower latency; after a power cut the last deliveries are forgotten and made again."""
    isolation: Isolation = "read_committed"
    """`read_uncommitted`: messages of open and of aborted transactions are delivered, too."""
    session_timeout_ms: int = 0
    """A member that sends nothing for this long has timed out. 0: the server's setting."""
    heartbeat_interval_ms: int = 0
    """How often share consumers send heartbeats. 0: the server's setting."""

    def check(self) -> None:
        """Raise `InvalidQueueSetting` that names all that is wrong."""
        problems = [
            f"{name}={getattr(self, name)!r}: must be {low} to {high}"
            for name, (low, high) in _RANGES.items()
            if not low <= getattr(self, name) <= high
        ]
        if len(self.weights) != LANES or not all(0 < each <= 1_000_000 for each in self.weights):
            problems.append(f"weights={self.weights!r}: {LANES} numbers above 0 are needed")
        if problems:
            raise InvalidQueueSetting("; ".join(problems))

    def within(self, topic: TopicSettings) -> "QueueSettings":
        """These, and the topic's where they leave it to the topic."""
        ttl_ms = self.ttl_ms or max(0, topic.goqueue_ttl_ms)
        expired = topic.goqueue_expired if self.expired == "topic" else self.expired
        return msgspec.structs.replace(self, ttl_ms=ttl_ms, expired=expired)

    def backoff_ms(self, failures: int, position: float) -> int:
        """How long a message waits after its `failures`-th failure.

        `position` in [0, 1) chooses from what the jitter allows.
        """
        exponent = min(failures - 1, 64)
        plain = min(self.backoff_base_ms * self.backoff_factor**exponent, self.backoff_max_ms)
        return round(plain * (1 - self.backoff_jitter + 2 * self.backoff_jitter * position))


_DAY_MS = 24 * 3_600_000
_RANGES: dict[str, tuple[float, float]] = {
    "visibility_ms": (1, 7 * _DAY_MS),
    "max_failures": (1, 1_000_000),
    "max_timeouts": (1, 1_000_000),
    "max_deliveries": (0, 1_000_000),
    "backoff_base_ms": (0, 30 * _DAY_MS),
    "backoff_factor": (1, 100),
    "backoff_max_ms": (0, 30 * _DAY_MS),
    "backoff_jitter": (0, 1),
    "max_in_flight_consumer": (1, 1_000_000),
    "max_in_flight_group": (1, 10_000_000),
    "key_window": (1, 1_000_000),
    "starvation_ms": (1, 30 * _DAY_MS),
    "fairness_window": (1, 100_000),
    "ttl_ms": (0, 2**53),
    "session_timeout_ms": (0, _DAY_MS),
    "heartbeat_interval_ms": (0, _DAY_MS),
}
