"""Who takes part in transactions, and hears of their end by a marker.

    partition       the records written to it         a control batch ends them
    group           the offsets that wait in it       its state machine commits or drops them
    queue ledger    the acks that wait in it          its state machine acks or releases them

The coordinator knows participants by name, and sends each the same marker: by a call when it is on
this node, else to the partition's leader or to the group's coordinator (`peers.py`).  A marker may
come any number of times: the second one changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

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
    """Partitions that other nodes lead, groups that they coordinate; see `TransactionPeers`."""

    def group_elsewhere(self, group_id: GroupId) -> NodeId | None: ...

    async def end_in_group(
        self, coordinator: NodeId, group_id: GroupId, marker: Marker
    ) -> None: ...

    def leader_elsewhere(self, at: TopicPartition) -> NodeId | None: ...

    async def end(
        self, leader: NodeId, at: TopicPartition, marker: Marker, *, is_ledger: bool = False
    ) -> None: ...


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
        self._asking: set[asyncio.Task[None]] = set()  # other nodes

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def stop(self) -> None:
        """The next start asks other nodes again."""
        for task in list(self._asking):
            task.cancel()

    def end(self, participant: Participant, marker: Marker) -> asyncio.Future[None]:
        if isinstance(participant, GroupOffsets):
            group_id = GroupId(participant.group_id)
            coordinator = self._others.group_elsewhere(group_id)
            if coordinator is None:
                return self._groups.end_transaction(group_id, marker)
            ending = self._others.end_in_group(coordinator, group_id, marker)
            return self._start(ending, ends_with_broker=True)
        if isinstance(participant, QueueLedger):
            at = TopicPartition(participant.topic, participant.partition)
            leader = self._others.leader_elsewhere(at)
            if leader is None:
                return self._acks.end(participant, marker)
            return self._end_at(leader, at, marker, is_ledger=True)
        partition = self._opened(*participant)
        if partition is not None and partition.leads:
            return end_in_partition(partition, marker, self._clock)
        leader = self._others.leader_elsewhere(participant)
        if leader is None:
            return self._start(self._end_in_closed_partition(participant, marker))
        return self._end_at(leader, participant, marker)

    def _end_at(
        self, leader: NodeId, at: TopicPartition, marker: Marker, *, is_ledger: bool = False
    ) -> asyncio.Future[None]:
        return self._start(
            self._others.end(leader, at, marker, is_ledger=is_ledger), ends_with_broker=True
        )

    def _start(
        self, ending: Coroutine[Any, Any, None], *, ends_with_broker: bool = False
    ) -> asyncio.Future[None]:
        """With `ends_with_broker` nobody waits for it when the broker stops."""
        assert self._tasks is not None, "the broker is not running"
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = self._tasks.create_task(_settle(ending, done))
        if ends_with_broker:
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return done

    async def _end_in_closed_partition(self, at: TopicPartition, marker: Marker) -> None:
        try:
            partition = await self._find_partition(*at)
        except TopicNotFound:
            return  # deleted meanwhile: nobody will read it
        await end_in_partition(partition, marker, self._clock)


async def _settle(ending: Coroutine[Any, Any, None], done: asyncio.Future[None]) -> None:
    """A refusal is for whoever waits: it must not end the broker's tasks."""
    try:
        await ending
    except GoQueueError as error:
        done.set_exception(error)
    except asyncio.CancelledError:
        done.cancel()
        raise
    else:
        done.set_result(None)


def end_in_partition(partition: Partition, marker: Marker, clock: Clock) -> asyncio.Future[None]:
    """End what the marker's producer has open in the partition; done when readers see that.

    In its delay log first: while the data has not ended it, the marker is sent again.
    """
    delays = partition.delays
    if delays is None or marker.producer_id not in delays.log.producers.open_transactions:
        return _end_in_log(partition, marker, clock)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end_in_data(done: asyncio.Future[None]) -> None:
        try:
            done.result()
            following = _end_in_log(partition, marker, clock)
        except (GoQueueError, asyncio.CancelledError) as error:
            _fail(ended, error)
            return
        following.add_done_callback(lambda each: _pass_on(each, ended))

    _end_in_log(delays, marker, clock).add_done_callback(end_in_data)
    return ended


def _pass_on(done: asyncio.Future[None], to: asyncio.Future[None]) -> None:
    error = asyncio.CancelledError() if done.cancelled() else done.exception()
    if error is not None:
        _fail(to, error)
    elif not to.done():
        to.set_result(None)


def _fail(future: asyncio.Future[None], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)


def _end_in_log(partition: Partition, marker: Marker, clock: Clock) -> asyncio.Future[None]:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    if partition.log.producers.has_ended(marker):
        return partition.wait_committed(Offset(partition.log.end_offset - 1))
    try:
        offset = partition.append_marker(marker, clock.now())
    except TopicNotFound:
        return done
    except InvalidProducerEpoch as error:
        _log.warning("marker not needed", partition=str(partition), reason=str(error))
        return done
    return partition.wait_committed(offset)
