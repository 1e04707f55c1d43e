"""Messages that are older than their topic keeps them, as a back-fill's may be.

Retention goes by the time that a message bears, not by when it came: with a column `timestamp` that
lies further back than the topic's `retention.ms` a message is deleted within a minute.  That is
allowed, as with Kafka, and is never what somebody wants: so it is said.
"""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import structlog

from goqueue.client.errors import ClientError
from goqueue.client.kafka import KafkaClient
from goqueue.model.batch import header_at
from goqueue.model.times import time_text
from goqueue.spark.columns import Encoded

ASKED_MS: Final = 3_600_000  # younger than that: nobody is asked what the topic keeps
FOREVER: Final = -1

_log = structlog.get_logger("goqueue.spark")
_warned: set[str] = set()  # topics, in this process


class Ages:
    """Looks at record batches on their way."""

    def __init__(self) -> None:
        self.oldest: dict[str, int] = {}
        """For each topic the newest time in its oldest batch, in milliseconds."""

    def watch(self, batches: Iterable[Encoded]) -> Iterator[Encoded]:
        for each in batches:
            newest = header_at(each.raw, 0).max_timestamp
            self.oldest[each.topic] = min(newest, self.oldest.get(each.topic, newest))
            yield each


def warn_of_old(connect: Callable[[], KafkaClient], oldest: Mapping[str, int]) -> None:
    """Tell the log, once a topic, of messages that retention is about to delete.  Never raises."""
    now_ms = time.time_ns() // 1_000_000
    old = {
        topic: timestamp
        for topic, timestamp in oldest.items()
        if topic not in _warned and now_ms - timestamp >= ASKED_MS
    }
    if not old:
        return
    with contextlib.suppress(ClientError), connect() as client:
        for topic, timestamp in old.items():
            kept_ms = _kept_ms(client, topic)
            if kept_ms != FOREVER and now_ms - timestamp > kept_ms:
                _warned.add(topic)
                _warn(topic, timestamp, kept_ms)


def _warn(topic: str, timestamp: int, kept_ms: int) -> None:
    _log.warning(
        "messages are older than their topic keeps them, and will be deleted within a minute:"
        " raise its retention.ms (-1 keeps all), or leave the column timestamp out",
        topic=topic,
        oldest=time_text(timestamp) or timestamp,
        retention_ms=kept_ms,
    )


def _kept_ms(client: KafkaClient, topic: str) -> int:
    settings = client.describe_configs("topic", topic)
    if "delete" not in (settings.get("cleanup.policy") or "delete"):
        return FOREVER
    return int(settings.get("retention.ms") or FOREVER)
