"""Consumers that wait for messages: woken one at a time, in the order they came.

Whatever may bring a message notifies: a partition that has more to read, a message that comes back,
a key that is free.  A notification wakes one consumer; a consumer that leaves something, or cannot
take it, wakes the next (`notify_next`).  So a message costs one wake-up, however many wait.
If each long poll were subscribed to its partitions, as those of readers are, all would wake.
"""

from collections.abc import Iterable

from goqueue.broker.long_poll import LongPoll
from goqueue.broker.storage.partition import Partition


class WaitQueue:
    """For the consumers of one group that wait for the same topics."""

    def __init__(self) -> None:
        self.notifications = 0
        self.users = 0
        self._polls: dict[LongPoll, int] = {}  # to the last notification that each knows of
        self._partitions: dict[Partition, None] = {}  # in order: a seed must repeat it

    # --- notifying -------------------------------------------------------------------------------

    def attach(self, partitions: Iterable[Partition]) -> None:
        """Notify when one of these has more to read."""
        for partition in partitions:
            if partition not in self._partitions:
                self._partitions[partition] = None
                partition.subscribe(self)  # asks for a sync too, if one is missing

    def detach(self) -> None:
        for partition in self._partitions:
            partition.unsubscribe(self)
        self._partitions.clear()

    def wake(self) -> None:
        """A partition has more to read."""
        self.notify_one()

    def notify_one(self) -> None:
        self.notifications += 1
        self.notify_next()

    def notify_all(self) -> None:
        self.notifications += 1
        for poll in self._polls:
            poll.wake()

    def notify_next(self) -> None:
        """Wake the next consumer that has not looked since the last notification."""
        for poll, seen in self._polls.items():
            if seen < self.notifications and not poll.has_news:
                poll.wake()
                return

    # --- waiting ----------------------------------------------------------------------------------

    async def wait_after(self, seen: int, poll: LongPoll) -> bool:
        """True after a notification later than number `seen`, False when the poll is over."""
        if self.notifications != seen:
            poll.wake()
        self._polls[poll] = seen
        try:
            return await poll.wait()
        except BaseException:
            del self._polls[poll]
            if poll.has_news:
                self.notify_next()  # who goes away just when it is woken lets the next one know
            raise
        finally:
            self._polls.pop(poll, None)
