"""How a group works its topics off.  Kept in the group's own record; times are in milliseconds."""

from typing import Literal

import msgspec

from goqueue.model.settings import TopicSettings
from goqueue.queue.errors import InvalidQueueSetting
from goqueue.queue.lanes import LANES, WEIGHTS

Ordering = Literal["none", "key"]
PriorityMode = Literal["weighted", "strict"]
Start = Literal["earliest", "latest"]
Expired = Literal["topic", "dead_letter", "drop"]
HandOuts = Literal["synced", "written"]
Isolation = Literal["read_committed", "read_uncommitted"]


class QueueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    visibility_ms: int = 30_000  # how long a consumer has for a message, unless it asks otherwise
    max_failures: int = 5  # nacks after which a message is a dead letter
    max_timeouts: int = 20  # deliveries without an answer after which it is one
    max_deliveries: int = 0  # deliveries after which it is one, however they ended; 0: no limit
    backoff_base_ms: int = 1_000
    backoff_factor: float = 2.0
    backoff_max_ms: int = 60_000
    backoff_jitter: float = 0.2  # so much shorter or longer, by chance
    max_in_flight_consumer: int = 1_000
    max_in_flight_group: int = 100_000
    ordering: Ordering = "none"  # "key": one message of a key in flight at a time, in order
    key_window: int = 10_000  # messages passed over because their key is busy, a partition
    priority: PriorityMode = "weighted"
    weights: tuple[int, ...] = WEIGHTS  # of the five lanes
    starvation_ms: int = 30_000  # a lane that waited so long gets one message out of turn
    fairness: str = ""  # the header whose values share a lane equally; none when empty
    fairness_window: int = 1_000  # messages a lane looks ahead for that, a partition
    ttl_ms: int = 0  # of messages without `gq-ttl-ms`; 0: as the topic says
    expired: Expired = "topic"  # as the topic says
    start: Start = "earliest"  # where the group begins in a partition that is new to it
    hand_outs: HandOuts = "synced"  # before messages are answered; "written": a power cut forgets
    # "read_uncommitted": messages of open and of aborted transactions are delivered, too
    isolation: Isolation = "read_committed"
    # Silence after which a member is taken for dead, unless it names another; 0: the server's.
    session_timeout_ms: int = 0
    heartbeat_interval_ms: int = 0  # how often share consumers are told to come; 0: the server's

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

    def backoff_ms(self, failures: int, chance: float) -> int:
        """How long a message waits after its `failures`-th failure; `chance` is in [0, 1)."""
        exponent = min(failures - 1, 64)
        plain = min(self.backoff_base_ms * self.backoff_factor**exponent, self.backoff_max_ms)
        return round(plain * (1 - self.backoff_jitter + 2 * self.backoff_jitter * chance))


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
