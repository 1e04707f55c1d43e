"""Who takes part in transactions, and hears of their end by a marker.

    partition       the records written to it         a control batch ends them
    group           the offsets that wait in it       its state machine commits or drops them
    queue ledger    the acks that wait in it          its state machine acks or releases them

The coordinator knows participants by name, and sends each the same marker.  Here they are all on
this node.  A marker may come any number of times: the second one changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.acks import TransactionAcks
from goqueue.model.errors import InvalidProducerEpoch, TopicNotFound
from goqueue.model.ids import GroupId, Offset, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import Clock
from goqueue.txn import GroupOffsets, Participant, QueueLedger

FindPartition = Callable[[str, int], Awaitable[Partition]]
OpenedPartition = Callable[[str, int], Partition | None]

_log = structlog.get_logger("goqueue.transactions")


class Participants(Protocol):
    def end(self, participant: Participant, marker: Marker) -> asyncio.Future[None]:
        """Done when the participant has ended the transaction, durably; else it is asked again."""


class LocalParticipants:
    def __init__(
        self,
        clock: Clock,
        groups: Groups,
        acks: TransactionAcks,
        find_partition: FindPartition,
        opened: OpenedPartition,
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._acks = acks
        self._find_partition = find_partition
        self._opened = opened
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def end(self, participant: Participant, marker: Marker) -> asyncio.Future[None]:
        if isinstance(participant, GroupOffsets):
            return self._groups.end_transaction(GroupId(participant.group_id), marker)
        if isinstance(participant, QueueLedger):
            return self._acks.end(participant, marker)
        partition = self._opened(*participant)
        if partition is not None:
            return end_in_partition(partition, marker, self._clock)
        assert self._tasks is not None, "the broker is not running"
        return self._tasks.create_task(self._end_in_closed_partition(participant, marker))

    async def _end_in_closed_partition(self, at: TopicPartition, marker: Marker) -> None:
        try:
            partition = await self._find_partition(*at)
        except TopicNotFound:
            return  # deleted meanwhile: nobody will read it
        await end_in_partition(partition, marker, self._clock)


def end_in_partition(partition: Partition, marker: Marker, clock: Clock) -> asyncio.Future[None]:
    """End what the marker's producer has open in the partition; done when readers see that."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    if partition.log.producers.has_ended(marker):
        return partition.committed(Offset(partition.log.end_offset - 1))
    try:
        offset = partition.append_marker(marker, clock.now())
    except TopicNotFound:
        return done
    except InvalidProducerEpoch as error:
        _log.warning("marker not needed", partition=str(partition), reason=str(error))
        return done
    return partition.committed(offset)
