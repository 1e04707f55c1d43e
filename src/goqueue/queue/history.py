"""The delivery history of a message that was returned to the queue; others have none."""

from goqueue.model.ids import Timestamp
from goqueue.queue.records import HistorySnapshot


class History:
    """Of a message that came back at least once."""

    __slots__ = (
        "consumer",
        "deliveries",
        "error",
        "failures",
        "first_at",
        "last_at",
        "lease_id",
        "timeouts",
    )

    def __init__(self, first_at: Timestamp) -> None:
        self.deliveries = 1
        self.failures = 0  # a consumer said so
        self.timeouts = 0  # no answer came: the visibility time-out passed, or the consumer died
        self.first_at = first_at
        self.last_at = first_at
        self.consumer = ""
        self.error = ""
        self.lease_id = -1  # the last one

    def snapshot(self, offset: int) -> HistorySnapshot:
        return HistorySnapshot(
            offset,
            self.deliveries,
            self.failures,
            self.first_at,
            self.last_at,
            self.consumer,
            self.error,
            self.lease_id,
            self.timeouts,
        )
