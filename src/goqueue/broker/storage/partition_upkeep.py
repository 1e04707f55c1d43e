"""What keeps partitions in good order: flushes, checkpoints, watermarks, retention.

A log that nobody uses costs nothing: only what is open is looked at, and for retention what is
surely old.  One log at a time is worked on.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

import structlog

from goqueue.broker.storage.bundle import Bundle
from goqueue.broker.storage.disk_room import DiskRoom
from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.topic_directories import TopicDirectories
from goqueue.cluster import Topic
from goqueue.model.config import StorageConfig
from goqueue.model.errors import GoQueueError, TopicNotFound
from goqueue.runtime import Clock, Disk

FLUSH_CHECK_SECONDS: Final = 0.1
WATERMARK_SECONDS: Final = 1.0

_log = structlog.get_logger("goqueue.partitions")


class KeptPartitions(Protocol):
    """The partitions of this node."""

    room: DiskRoom

    def logs(self) -> list[Partition]: ...

    def find_open(self, topic: str, index: int) -> Partition | None: ...

    def bundle(self, topic: Topic, index: int) -> Bundle: ...

    async def get(self, topic: Topic, index: int) -> Partition: ...


class PartitionUpkeep:
    def __init__(
        self,
        partitions: KeptPartitions,
        directories: TopicDirectories,
        disk: Disk,
        clock: Clock,
        config: StorageConfig,
    ) -> None:
        self._partitions = partitions
        self._directories = directories
        self._disk = disk
        self._clock = clock
        self.config = config
        self._dirty: dict[Partition, float] = {}  # written and not synced, since when
        self._waited_for: dict[Partition, None] = {}  # with time-outs; in order, as it is a seed's

    # --- what partitions say ----------------------------------------------------------------------

    def note_dirty(self, partition: Partition) -> None:
        """It has something that is not synced."""
        self._dirty[partition] = asyncio.get_running_loop().time()

    def note_wait(self, partition: Partition) -> None:
        """Somebody waits for a commit, and not for ever."""
        self._waited_for[partition] = None

    def note_flush(self, partition: Partition) -> None:
        """It was synced, up to some offset."""
        if not partition.log.needs_sync:
            self._dirty.pop(partition, None)
        elif partition in self._dirty:
            self.note_dirty(partition)

    def forget(self, partition: Partition) -> None:
        """Nothing more can be synced of it."""
        self._dirty.pop(partition, None)

    # --- loops ------------------------------------------------------------------------------------

    async def run_flushes(self) -> None:
        """Sync what nobody waits for, within its topic's `flush.ms`; end waits that are overdue."""
        loop = asyncio.get_running_loop()
        while True:
            await self._clock.sleep(FLUSH_CHECK_SECONDS)
            now = loop.time()
            for partition, since in list(self._dirty.items()):
                settings = partition.log.settings
                if settings.flush != "never" and now - since >= settings.flush_ms / 1000:
                    partition.demand_flush()
            for partition in list(self._waited_for):
                if not partition.end_overdue(now):
                    del self._waited_for[partition]

    async def run_watermarks(self) -> None:
        """Let the logs that have several replicas remember how far they are committed."""
        while True:
            await self._clock.sleep(WATERMARK_SECONDS)
            for log in self._partitions.logs():
                log.log.store_watermark()

    async def run_checkpoints(self) -> None:
        while True:
            await self._clock.sleep(self.config.checkpoint_ms / 1000)
            await self._partitions.room.look()
            for partition in self._partitions.logs():
                if partition.log.needs_checkpoint and partition.log.failed is None:
                    await try_upkeep("checkpoint", partition, partition.checkpoint)

    async def run_retention(self, topics: Callable[[], Iterable[Topic]]) -> None:
        while True:
            await self._clock.sleep(self.config.retention_check_ms / 1000)
            for topic in list(topics()):
                look = functools.partial(self._to_look_at, topic)
                for index in await self._disk.in_background(look):
                    retain = functools.partial(self._retain_at, topic, index)
                    await try_upkeep("retention", f"{topic.name}-{index}", retain)

    async def _retain_at(self, topic: Topic, index: int) -> None:
        if self._partitions.bundle(topic, index).is_led_here:  # followers do as their leader does
            await self.retain(await self._partitions.get(topic, index))

    def _to_look_at(self, topic: Topic) -> list[int]:
        """Blocking.  The partitions that are open, or worth opening for retention's sake."""
        now = self._clock.now()
        names = self._disk.list_directory(f"{self._directories.logs}/{topic.name}")
        stored = sorted(int(name) for name in names if name.isdigit())
        return [
            index
            for index in stored
            if topic.has_partition(index)
            and (
                self._partitions.find_open(topic.name, index) is not None
                or self._directories.may_have_old(topic, index, now)
            )
        ]

    async def retain(self, partition: Partition) -> None:
        """Roll an old active segment and remove what the topic need not keep."""
        now = self._clock.now()
        log = partition.log
        if log.failed is not None or log.abandoned or not partition.leads:
            return  # followers do as their leader does
        if log.is_old(now):
            log.roll()
        if log.knows_times:
            start = log.retention_start(now)
        else:
            start = await self._disk.in_background(lambda: log.retention_start(now))
        if start > log.start_offset:
            before = log.start_offset
            removed = await partition.remove_before(start)
            _log.info(
                "old records removed",
                topic=partition.topic,
                partition=partition.index,
                from_offset=before,
                to_offset=start,
                segments=removed,
            )


async def try_upkeep(what: str, where: object, work: Callable[[], Awaitable[None]]) -> bool:
    """One log's trouble must not stop the upkeep of the others; False when there was some."""
    try:
        await work()
    except TopicNotFound:  # deleted meanwhile: nothing is wrong
        _log.debug(f"{what} skipped, the topic was deleted", partition=str(where))
    except GoQueueError as error:
        _log.error(f"{what} failed", partition=str(where), problem=str(error))
        return False
    return True
