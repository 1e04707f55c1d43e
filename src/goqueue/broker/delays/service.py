"""Delayed messages: the verbs that all listeners share.

appending   batches with delayed messages on their way in
lines       the partitions that have any: timers that run, messages that go out
admin       list, look up, cancel, reschedule and count, over all nodes
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol
from uuid import UUID

from goqueue.broker.cluster.other_nodes import OtherNodes
from goqueue.broker.delays.admin import DelayAdmin
from goqueue.broker.delays.appending import DelayedAppends
from goqueue.broker.delays.lines import DelayLines
from goqueue.broker.delays.statistics import Lateness
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.storage.bundle import DELAYS, Bundle
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Metadata, Topic
from goqueue.delay import DelayMachine, Entry
from goqueue.model.ids import Timestamp
from goqueue.runtime import Environment


class DelayServices(Protocol):
    """What the broker gives."""

    environment: Environment
    partitions: Partitions

    @property
    def metadata(self) -> Metadata: ...

    @property
    def others(self) -> OtherNodes | None: ...

    @property
    def is_stopping(self) -> bool: ...

    def topic(self, name: str) -> Topic: ...

    def topic_by_id(self, topic_id: UUID) -> Topic: ...

    def topics(self) -> list[Topic]: ...

    async def partition(self, topic: str, index: int) -> Partition: ...


class Delays:
    def __init__(
        self, services: DelayServices, on_opened: Callable[[Partition], Coroutine[Any, Any, None]]
    ) -> None:
        """`on_opened` ends the transactions of a delay log that nobody will end."""
        self.lateness = Lateness()
        self.lines = DelayLines(
            services.environment, services.partitions, services, on_opened, self._note_delivered
        )
        self.appends = DelayedAppends(services, services.environment.clock, self.lines)
        self.admin = DelayAdmin(services, self.lines)
        if services.others is not None:
            self.admin.serve(services.others)

    def _note_delivered(self, entries: Sequence[Entry], now: Timestamp) -> None:
        self.lateness.observe(entries, now)

    @property
    def hosts(self) -> list[MachineHost[DelayMachine]]:
        return [line.timers for line in self.lines]

    async def run(self) -> None:
        """Until cancelled."""
        await self.lines.run()

    async def open_all(self, topics: Iterable[Topic]) -> None:
        await self.lines.open_all(topics)

    async def partition_led(self, topic: Topic, bundle: Bundle) -> None:
        """This node leads a partition from now on: its delays go on here."""
        if bundle.find(DELAYS) is not None:
            await self.lines.try_open(topic, bundle.index)

    def partition_resigned(self, bundle: Bundle) -> None:
        """Another node leads the partition, and delivers what is due."""
        self.lines.drop(bundle.topic, bundle.index)

    def topic_deleted(self, name: str) -> None:
        """Its delays go with it."""
        self.lines.drop(name)
