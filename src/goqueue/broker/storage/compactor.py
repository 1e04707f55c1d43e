"""Compaction at work: looks at compacted topics now and then, one partition at a time."""

from collections.abc import Callable, Iterable

import structlog

from goqueue.broker.storage.partition import Partition
from goqueue.broker.storage.partition_store import Partitions
from goqueue.cluster import Topic
from goqueue.log import SupersededOffsets, compaction
from goqueue.log.compaction import Report
from goqueue.model.config import StorageConfig
from goqueue.model.errors import DiskFull, GoQueueError, InvalidRequest, NotLeader
from goqueue.model.ids import Offset
from goqueue.runtime import Clock, Disk, Environment

_log = structlog.get_logger("goqueue.cleaner")


class Cleaner:
    def __init__(
        self, environment: Environment, partitions: Partitions, config: StorageConfig
    ) -> None:
        self._disk: Disk = environment.disk
        self._clock: Clock = environment.clock
        self._partitions = partitions
        self._config = config
        self._stopping = False
        self.runs = 0
        self.bytes_reclaimed = 0

    async def run(self, topics: Callable[[], Iterable[Topic]]) -> None:
        while True:
            await self._clock.sleep(self._config.compaction_check_ms / 1000)
            for topic in list(topics()):
                if topic.settings.is_compacted:
                    await self._clean(topic)

    def reconfigure(self, config: StorageConfig) -> None:
        self._config = config

    def stop(self) -> None:
        """Let a run that is under way end early; it leaves no trace."""
        self._stopping = True

    async def _clean(self, topic: Topic) -> None:
        for index in range(topic.partitions):
            try:
                await self.compact(await self._partitions.get(topic, index))
            except NotLeader:
                continue  # other nodes have it
            except GoQueueError as error:
                _log.error(
                    "compaction failed", topic=topic.name, partition=index, problem=str(error)
                )

    async def seal(self, partition: Partition) -> tuple[Offset, Offset]:
        """Seal what was written so far; gives the range that may be compacted now."""
        log = partition.log
        if not log.settings.is_compacted:
            raise InvalidRequest(
                f"{partition.topic!r} is not compacted: set its `cleanup.policy` to compact"
            )
        if log.active.size:
            log.roll()
            await partition.flush()
        plan = compaction.plan(log, self._clock.now(), force=True)
        end = plan.segments[-1].next_offset if plan else log.start_offset
        return log.start_offset, end

    async def compact(
        self,
        partition: Partition,
        *,
        force: bool = False,
        dry_run: bool = False,
        superseded: SupersededOffsets | None = None,
    ) -> Report | None:
        """Compact the partition if it is worth it, or if told to; None when nothing was done.

        `superseded` says what may go when somebody else has found that out.
        """
        log = partition.log
        now = self._clock.now()
        if log.rewriting:
            return None
        if compaction.should_roll(log, now):
            log.roll()
            await partition.flush()
        plan = compaction.plan(log, now, force=force)
        if plan is None:
            return None
        log.rewriting = True
        try:
            result = await self._disk.in_background(
                lambda: compaction.run(
                    self._disk,
                    plan,
                    memory_bytes_max=self._config.compaction_memory_bytes,
                    free_bytes_min=self._config.free_bytes_min,
                    should_stop=lambda: self._stopping or log.abandoned or log.cut_waits,
                    dry_run=dry_run,
                    superseded=superseded,
                )
            )
            if result is None or dry_run:
                return result.report if result else None
            try:
                await partition.replace_segments(result)
            except DiskFull:
                await self._disk.in_background(lambda: compaction.discard(self._disk, plan))
                raise
        finally:
            log.rewriting = False
        self._tell(partition, result.report)
        return result.report

    def _tell(self, partition: Partition, report: Report) -> None:
        self.runs += 1
        self.bytes_reclaimed += report.bytes_before - report.bytes_after
        _log.info(
            "compacted",
            topic=partition.topic,
            partition=partition.index,
            records_before=report.records_before,
            records_after=report.records_after,
            bytes_before=report.bytes_before,
            bytes_after=report.bytes_after,
        )
