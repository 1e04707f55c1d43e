"""Machines on the logs of internal topics: opened as they were when the broker stopped."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from goqueue.broker.cluster.coordinator_topics import COORDINATED, CoordinatorTopics
from goqueue.broker.host_upkeep import HostUpkeep
from goqueue.broker.journal import WarmStart
from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_journal import CommittedJournal, PartitionJournal
from goqueue.broker.storage.partition_store import INTERNAL_SETTINGS, Partitions
from goqueue.model.errors import CorruptData, NotCoordinator
from goqueue.model.machine import Machine
from goqueue.model.settings import topic_settings
from goqueue.runtime import Environment

METADATA_TOPIC: Final = "__metadata"
LEDGERS_TOPIC: Final = "__ledgers"

MachineT = TypeVar("MachineT", bound=Machine)  # type: ignore[type-arg] # any machine's records


class PartitionBroker(Protocol):
    """The broker whose partitions hold the logs."""

    partitions: Partitions

    async def partition(self, topic: str, index: int) -> Partition: ...


class InternalTopics:
    def __init__(
        self,
        broker: PartitionBroker,
        environment: Environment,
        data_dir: str,
        coordinators: CoordinatorTopics,
    ) -> None:
        self._broker = broker
        self._disk, self._clock = environment.disk, environment.clock
        self._data_dir = data_dir
        self._coordinators = coordinators

    async def open_host(
        self,
        topic: str,
        machine: MachineT,
        on_deadline_reply: Callable[[Any, Committed], None] | None = None,
        upkeep: HostUpkeep | None = None,
        *,
        index: int = 0,
        warm: WarmStart | None = None,
    ) -> MachineHost[MachineT]:
        """The machine, on a log of the internal topic, as it was when the broker stopped.

        It is new, or as far as `warm` says.
        """
        partition, snapshots = await self.open(topic, index)
        journal = PartitionJournal(partition, self._disk, self._clock, snapshots)
        host = MachineHost(machine, journal, self._clock, on_deadline_reply, upkeep)
        epoch = partition.leader_epoch
        with self.naming_damage(topic):
            await host.open(warm)
        if not partition.leads or partition.leader_epoch != epoch:
            lost = partial(NotCoordinator, f"{partition} has a new leader")
            host.resign(lost, lost)
            raise lost()
        return host

    def open_committed(self, partition: Partition) -> CommittedJournal:
        """The journal of a log that another node leads, as far as it is committed."""
        snapshots = self._snapshots_of(partition.topic, partition.index)
        return CommittedJournal(partition, self._disk, self._clock, snapshots)

    def _snapshots_of(self, topic: str, index: int) -> str:
        """A former release had one partition, and its snapshots in this directory."""
        return f"{self._data_dir}/snapshots/{topic}" + (f"-{index}" if index else "")

    async def open(self, topic: str, index: int = 0) -> tuple[Partition, str]:
        """A partition of an internal topic, and the directory of its snapshots.

        Raises `NotLeader` when another node leads it.
        """
        snapshots = self._snapshots_of(topic, index)
        placed = self._coordinators.find(topic) if topic in COORDINATED else None
        if placed is not None:
            return await self._broker.partition(topic, index), snapshots
        assert index == 0, "a broker that is alone has one partition of each"
        settings = topic_settings(INTERNAL_SETTINGS)
        return await self._broker.partitions.internal(topic, settings), snapshots

    @contextlib.contextmanager
    def naming_damage(self, topic: str) -> Iterator[None]:
        """What is said of a damaged log says which one, and what to do."""
        try:
            yield
        except CorruptData as error:
            raise CorruptData(
                f"{topic}, a log of the server itself, is damaged: {error}. Restore a backup, or"
                f" run `goqueue doctor --data-dir {self._data_dir} --repair`, which says"
                " what is lost and keeps the damaged files"
            ) from error
