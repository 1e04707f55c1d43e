"""Every request about delayed messages."""

from goqueue.api.delays import DelayedBody, DelayedPage, DelayStats, Reschedule
from goqueue.client.http.calls.call import Call, change, get, path_of, post


def delayed_messages(
    topic: str, *, limit: int = 100, cursor: str | None = None
) -> Call[DelayedPage]:
    """Those that wait, by due time; `cursor` of an earlier page goes on behind it."""
    query = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
    return get(path_of("topics", topic, "delayed"), DelayedPage, query)


def delayed_message(topic: str, partition: int, offset: int) -> Call[DelayedBody]:
    """Partition and offset are those of the answer to its publish."""
    return get(_path(topic, partition, offset), DelayedBody)


def cancel_delay(topic: str, partition: int, offset: int) -> Call[DelayedBody]:
    """It is never delivered."""
    return change("DELETE", _path(topic, partition, offset), DelayedBody)


def reschedule_delay(
    topic: str,
    partition: int,
    offset: int,
    *,
    delay_ms: int | None = None,
    deliver_at: int | str | None = None,
) -> Call[DelayedBody]:
    """Deliver it at another time; one of both."""
    body = Reschedule(delay_ms, deliver_at)
    return post(_path(topic, partition, offset), DelayedBody, body, is_repeatable=True)


def delay_stats() -> Call[DelayStats]:
    """How many messages wait, by topic."""
    return get("/delay/stats", DelayStats)


def _path(topic: str, partition: int, offset: int) -> str:
    return path_of("topics", topic, "delayed", str(partition), str(offset))
