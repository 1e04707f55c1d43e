"""Partitions that this node must not lead any more: its disk failed, is full, or has lost records.

The node proposes an ISR without itself, so that another replica leads.  If there is none that is
in sync, it stays the leader: nobody else has what it has.

A node whose disk is full keeps its replicas, and is in sync again when there is room.  It resigns
from each partition once in a while only: the disks of the others may be full, too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final
from weakref import WeakKeyDictionary

import structlog

from goqueue.broker.storage.bundle import Bundle
from goqueue.cluster.controller import IsrChange
from goqueue.cluster.errors import StalePartitionEpoch
from goqueue.cluster.metadata import PartitionState
from goqueue.cluster.replication import IsrMember, Leader
from goqueue.model.errors import FencedLeaderEpoch, GoQueueError, NotLeader
from goqueue.model.ids import Instant, NodeEpoch, NodeId
from goqueue.runtime import Clock

RETRY_SECONDS: Final = 0.5
FULL_SECONDS: Final = 0.5  # between two looks at the disk
FULL_PAUSE_NS: Final = 30_000_000_000  # before a partition is given up for a full disk again

_log = structlog.get_logger("goqueue.replication")


class Resignations:
    def __init__(
        self,
        clock: Clock,
        alter: Callable[[IsrChange], Awaitable[PartitionState]],
        node_epoch: Callable[[NodeId], NodeEpoch],
    ) -> None:
        self._clock = clock
        self._alter = alter
        self._node_epoch = node_epoch
        self._waiting: dict[Bundle, Leader] = {}
        self._news = asyncio.Event()

    def note(self, bundle: Bundle, role: Leader) -> None:
        """The node should not lead the partition as it does."""
        if bundle.topic_id is not None and len(role.isr) > 1:
            self._waiting[bundle] = role
            self._news.set()

    async def run_full_disk(
        self, is_full: Callable[[], bool], led: Callable[[], Iterable[Bundle]]
    ) -> None:
        """Give up what is led while there is no room, until cancelled."""
        given_up: WeakKeyDictionary[Bundle, Instant] = WeakKeyDictionary()
        while True:
            await self._clock.sleep(FULL_SECONDS)
            now = self._clock.instant()
            for bundle in led() if is_full() else ():
                before = given_up.get(bundle)
                if before is None or now - before > FULL_PAUSE_NS:
                    given_up[bundle] = now
                    assert isinstance(bundle.role, Leader)
                    self.note(bundle, bundle.role)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            for bundle, role in list(self._waiting.items()):
                await self._resign(bundle, role)
            if self._waiting:
                await self._clock.sleep(RETRY_SECONDS)
                self._news.set()

    async def _resign(self, bundle: Bundle, role: Leader) -> None:
        try:
            await self._alter(self._change_of(bundle, role))
        except (FencedLeaderEpoch, NotLeader, StalePartitionEpoch):
            pass  # it has another leader, or another ISR: it is noted anew if it is still needed
        except GoQueueError as error:
            _log.warning("not resigned yet", partition=str(bundle), problem=str(error))
            return
        else:
            _log.error(
                "resigned: this node's disk is full, or not to be trusted", partition=str(bundle)
            )
        self._waiting.pop(bundle, None)

    def _change_of(self, bundle: Bundle, role: Leader) -> IsrChange:
        assert bundle.topic_id is not None
        others = sorted(role.isr - {role.node})
        return IsrChange(
            topic_id=bundle.topic_id,
            partition=bundle.index,
            leader_epoch=role.epoch,
            partition_epoch=role.partition_epoch,
            isr=[IsrMember(each, self._node_epoch(each)) for each in others],
            lost_data=[role.node],
        )
