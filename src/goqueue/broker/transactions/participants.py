"""Who takes part in transactions, and hears of their end by a marker.

    partition       the records written to it         a control batch ends them
    group           the offsets that wait in it       its state machine commits or drops them
    queue ledger    the acks that wait in it          its state machine acks or releases them

The coordinator knows participants by name, and sends each the same marker.  A partition may be led
by another node (`peers.py`); groups and queue ledgers are on this one.  A marker may come any
number of times: the second one changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from goqueue.broker.groups.coordinator import Groups
from goqueue.broker.storage.partition import Partition
from goqueue.broker.transactions.acks import TransactionAcks
from goqueue.model.errors import GoQueueError, InvalidProducerEpoch, TopicNotFound
from goqueue.model.ids import GroupId, NodeId, Offset, TopicPartition
from goqueue.model.markers import Marker
from goqueue.runtime import Clock
from goqueue.txn import GroupOffsets, Participant, QueueLedger

FindPartition = Callable[[str, int], Awaitable[Partition]]
OpenedPartition = Callable[[str, int], Partition | None]

_log = structlog.get_logger("goqueue.transactions")


class OtherLeaders(Protocol):
    """Partitions that other nodes lead; see `TransactionPeers`."""

    def leader_elsewhere(self, at: TopicPartition) -> NodeId | None: ...

    async def end(self, leader: NodeId, at: TopicPartition, marker: Marker) -> None: ...


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
        others: OtherLeaders,
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._acks = acks
        self._find_partition = find_partition
        self._opened = opened
        self._others = others
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def end(self, participant: Participant, marker: Marker) -> asyncio.Future[None]:
        if isinstance(participant, GroupOffsets):
            return self._groups.end_transaction(GroupId(participant.group_id), marker)
        if isinstance(participant, QueueLedger):
            return self._acks.end(participant, marker)
        partition = self._opened(*participant)
        if partition is not None and partition.leads:
            return end_in_partition(partition, marker, self._clock)
        assert self._tasks is not None, "the broker is not running"
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks.create_task(self._end_elsewhere(participant, marker, ended))
        return ended

    async def _end_elsewhere(
        self, at: TopicPartition, marker: Marker, ended: asyncio.Future[None]
    ) -> None:
        """In a partition that is not open here, or that another node leads.

        What goes wrong is the future's: a task that fails would end the broker.
        """
        try:
            leader = self._others.leader_elsewhere(at)
            if leader is not None:
                await self._others.end(leader, at, marker)
            else:
                partition = await self._find_partition(*at)
                await end_in_partition(partition, marker, self._clock)
        except TopicNotFound:
            pass  # deleted meanwhile: nobody will read it
        except GoQueueError as error:
            if not ended.done():
                ended.set_exception(error)
        except asyncio.CancelledError:
            ended.cancel()
            raise
        if not ended.done():
            ended.set_result(None)


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
