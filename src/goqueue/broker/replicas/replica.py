"""One log that follows a leader: what it asks for, and what it makes of the answer.

    diverging epoch     cut the log there, ask again.  Committed records are not cut, unless the
                        election was unclean: the replica is frozen, and keeps its files.  Of a log
                        that is not synced with each commit, a power cut may have taken some from
                        all who could lead: those are given up
    below the start     what the leader has begins later: drop everything, and begin there
    gaps                the leader has compacted there: note it, ask again
    records             write them as they are; sync; then ask for what follows, which says that all
                        before is on this disk
    watermark, start    follow, as far as they are in this log

A full disk stops this replica until there is room, and the leader is told; a disk that fails, for
good.  The others go on.
"""

from typing import Final

import msgspec

from goqueue.broker.storage.partition import Partition
from goqueue.cluster.replication import (
    Diverged,
    Follower,
    Frozen,
    Offline,
    ack_offset,
    truncation_offset,
)
from goqueue.model.errors import CorruptData, NotLeader, OffsetOutOfRange, StorageFailed
from goqueue.model.ids import Epoch, Offset, Timestamp, TopicIdPartition
from goqueue.wire.fetch import FetchPartition, FetchPartitionResponse

# Kafka's codes
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC, NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_TOPIC_ID = 3, 6, 74, 75, 100
PASSING: Final = frozenset(
    (UNKNOWN_TOPIC, NOT_LEADER, FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_TOPIC_ID)
)


class Refused(NotLeader):
    """The leader has no answer for this partition now; ask again a little later.

    So it is for a moment whenever a leader changes.
    """


class LeaderFailed(CorruptData):
    """The leader cannot read what is asked for."""


class FrozenReplica(StorageFailed):
    """The leader lacks committed records: this replica follows no more, and keeps its files."""


class Following(msgspec.Struct, frozen=True):
    """Whom a replica follows: one leader, in one of its epochs."""

    role: Follower
    is_unclean: bool = False  # its election may have lost committed records, and that is known


class ReplicaLog:
    """A log of this node while it follows one leader in one epoch."""

    def __init__(self, key: TopicIdPartition, partition: Partition, following: Following) -> None:
        self.key = key
        self.partition = partition
        self.following = following
        self.is_stopped = False  # its role is over: no more is asked for it, or written to it
        self.has_room = True  # on the disk, as of the last try
        self.problem: str | None = None  # why it does not follow just now, as it was told
        self._leader_watermark: Offset | None = None  # as of the last answer

    @property
    def is_following(self) -> bool:
        """Whether an answer may still change its log."""
        return not self.is_stopped and self.partition.role == self.following.role

    def next_fetch(self, bytes_max: int) -> FetchPartition:
        """What to ask for; to ask is to acknowledge all before.

        To ask for 0 bytes says that there is no room: the leader commits without this replica.
        """
        log = self.partition.log
        acked = ack_offset(
            synced_offset=log.synced_offset,
            end_offset=log.end_offset,
            flush=log.settings.flush,
        )
        return FetchPartition(
            partition=self.key.partition,
            current_leader_epoch=self.following.role.epoch,
            fetch_offset=acked,
            last_fetched_epoch=log.last_epoch,
            log_start_offset=log.start_offset,
            partition_max_bytes=bytes_max if self.has_room else 0,
            high_watermark=log.high_watermark,
        )

    @property
    def is_caught_up(self) -> bool:
        """Whether it lacks nothing that is committed, as of the last answer."""
        known = self._leader_watermark
        return known is not None and known <= self.partition.log.end_offset

    @property
    def needs_sync(self) -> bool:
        """Whether it has written what it may not acknowledge yet."""
        log = self.partition.log
        return log.settings.flush == "commit" and log.needs_sync

    async def sync(self) -> None:
        await self.partition.flush()

    # --- taking an answer -------------------------------------------------------------------------

    def write(self, answer: FetchPartitionResponse, now: Timestamp) -> None:
        """Write its records, if there are any.  Raises what stopped that."""
        if answer.error_code or answer.diverging_epoch is not None or self._has_gaps(answer):
            return
        if answer.records:
            assert not isinstance(answer.records, list)
            self.partition.append_as_follower(answer.records, now)

    async def settle(self, answer: FetchPartitionResponse) -> None:
        """Make durable what was written, or cut what must go; follow watermark and start.

        Raises what stopped that.
        """
        if answer.diverging_epoch is not None:
            diverging = answer.diverging_epoch
            await self._cut(Diverged(Epoch(diverging.epoch), Offset(diverging.end_offset)))
            return
        if answer.error_code == OFFSET_OUT_OF_RANGE:
            await self._begin_at(Offset(answer.log_start_offset))
            return
        if answer.error_code:
            failure = Refused if answer.error_code in PASSING else LeaderFailed
            raise failure(f"{self.partition}: its leader answers with error {answer.error_code}")
        partition = self.partition
        if self._has_gaps(answer):
            self.partition.log.allow_gaps(Offset(answer.gaps_below))
            await self.partition.checkpoint()  # or recovery would take a gap for damage
            return
        if self.needs_sync:
            await self.sync()
        if not self.is_following:
            return
        self._leader_watermark = watermark = Offset(answer.high_watermark)
        partition.follow_watermark(watermark)
        await self._follow_start(Offset(answer.log_start_offset))

    def _has_gaps(self, answer: FetchPartitionResponse) -> bool:
        """Whether the leader says that there may be gaps where this log knows of none."""
        return answer.gaps_below > self.partition.log.gaps_below

    @property
    def _may_cut_committed(self) -> bool:
        return self.following.is_unclean or self.partition.log.settings.flush != "commit"

    async def _cut(self, diverged: Diverged) -> None:
        log, is_unclean = self.partition.log, self._may_cut_committed
        offset = truncation_offset(
            log.epochs,
            log.end_offset,
            diverged,
            high_watermark=log.high_watermark,
            is_unclean=is_unclean,
        )
        if isinstance(offset, Frozen):
            raise self._freeze(str(offset))
        if offset >= log.end_offset:
            raise Refused(f"{self.partition}: its leader differs, and there is nothing to cut")
        await self.partition.truncate_to(offset, unclean=is_unclean)

    async def _begin_at(self, start: Offset) -> None:
        """The leader has nothing before `start`, or this log has offsets that it never had."""
        log, is_unclean = self.partition.log, self._may_cut_committed
        if log.start_offset <= start <= log.end_offset and log.start_offset < log.end_offset:
            raise Refused(f"{self.partition}: its leader begins at {start}, which is here")
        try:
            await self.partition.reset_to(start, unclean=is_unclean)
        except OffsetOutOfRange as error:
            raise self._freeze(str(error)) from error

    def _freeze(self, reason: str) -> FrozenReplica:
        if self.is_following:
            self.partition.take_role(Offline(reason, self.following.role.epoch))
        return FrozenReplica(reason)

    async def _follow_start(self, start: Offset) -> None:
        log = self.partition.log
        start = min(start, log.high_watermark)
        if start > log.start_offset:
            await self.partition.remove_before(start)
