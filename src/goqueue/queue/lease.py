"""Leases, and who holds how many messages."""

from goqueue.model.ids import Timestamp
from goqueue.queue.ranges import Ranges


class Lease:
    """Messages of one partition that one consumer got at once, or a part of them.

    A part that was extended, or that a transaction acks, has a lease of its own, with the number
    of the delivery.
    """

    __slots__ = (
        "consumer",
        "deadline",
        "delivered_at",
        "lease_id",
        "ranges",
        "remaining",
        "transactional_id",
        "visibility_ms",
    )

    def __init__(
        self, lease_id: int, consumer: str, delivered_at: Timestamp, deadline: Timestamp
    ) -> None:
        self.lease_id = lease_id
        self.consumer = consumer
        self.delivered_at = delivered_at
        self.deadline = deadline
        self.visibility_ms = deadline - delivered_at  # that was given last
        self.transactional_id = (
            ""  # the transaction whose end acks it; until then it does not run out
        )
        self.ranges: Ranges = ()  # as delivered; some of it may be over
        self.remaining = 0  # messages still in flight


class LeaseBook:
    """How many messages each consumer of a group holds."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.consumers: dict[str, int] = {}

    def add(self, consumer: str, count: int) -> None:
        self.in_flight += count
        self.consumers[consumer] = self.consumers.get(consumer, 0) + count

    def remove(self, consumer: str, count: int) -> None:
        self.in_flight -= count
        left = self.consumers[consumer] - count
        assert left >= 0
        if left:
            self.consumers[consumer] = left
        else:
            del self.consumers[consumer]
