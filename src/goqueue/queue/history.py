"""What is remembered of a message that came back; of others there is nothing to remember."""

from goqueue.model.ids import Timestamp
from goqueue.queue.records import HistoryKept


class History:
    """Of a message that came back at least once."""

    __slots__ = (
        "consumer",
        "error",
        "failures",
        "first_at",
        "hand_outs",
        "last_at",
        "lease_id",
        "timeouts",
    )

    def __init__(self, first_at: Timestamp) -> None:
        self.hand_outs = 1
        self.failures = 0  # a consumer said so
        self.timeouts = 0  # no answer came: the visibility time-out passed, or the consumer died
        self.first_at = first_at
        self.last_at = first_at
        self.consumer = ""
        self.error = ""
        self.lease_id = -1  # the last one

    def kept(self, offset: int) -> HistoryKept:
        return HistoryKept(
            offset,
            self.hand_outs,
            self.failures,
            self.first_at,
            self.last_at,
            self.consumer,
            self.error,
            self.lease_id,
            self.timeouts,
        )
