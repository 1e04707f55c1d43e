"""One queue group: its settings, members and totals."""

from collections.abc import Callable

from goqueue.model.ids import GroupId, TopicName, TopicPartition
from goqueue.queue.lease import LeaseBook
from goqueue.queue.partition_state import PartitionState
from goqueue.queue.records import QueueMember
from goqueue.queue.replies import Totals
from goqueue.queue.settings import QueueSettings
from goqueue.queue.totals import sum_of

SettingsOf = Callable[[GroupId], QueueSettings]  # the same object until they change


class QueueGroup:
    def __init__(self, group_id: GroupId, settings_of: SettingsOf) -> None:
        self.group_id = group_id
        self._settings_of = settings_of
        self.former_settings: QueueSettings | None = None  # of a log that kept them itself
        self.states: dict[TopicPartition, PartitionState] = {}
        self.book = LeaseBook()
        self.topic_totals: dict[TopicName, Totals] = {}
        self.members: dict[str, QueueMember] = {}  # of a log that kept them itself
        self.generation = 0  # how often those came or went
        self.has_begun = False  # in a topic, which may be gone since: it is more than settings
        # Of the partitions of its topics: those that are led here, and all.  Limits are divided.
        self.led, self.partitions = 1, 1

    @property
    def settings(self) -> QueueSettings:
        return self._settings_of(self.group_id)

    @property
    def totals(self) -> Totals:
        """Of all topics together."""
        return sum_of(self.topic_totals.values())

    def totals_in(self, topic: TopicName) -> Totals:
        found = self.topic_totals.get(topic)
        if found is None:
            found = self.topic_totals[topic] = Totals()
        return found

    def room(self, consumer: str) -> int:
        """How many messages the consumer may still be handed; 0 or less when it has too many."""
        settings = self.settings
        return min(
            self.share(settings.max_in_flight_consumer) - self.book.consumers.get(consumer, 0),
            self.share(settings.max_in_flight_group) - self.book.in_flight,
        )

    def share(self, limit: int) -> int:
        """This node's part of a limit; all of it where it leads all partitions, and at least 1."""
        return limit if self.led >= self.partitions else max(1, limit * self.led // self.partitions)
