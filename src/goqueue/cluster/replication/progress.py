"""How far one follower has come, as its leader knows from what it asks for.

A follower asks for the offset up to which its disk has everything, so to ask is to acknowledge.
It is caught up as of the last time when it had acknowledged all that the leader had written by
then (see `ack` and `note_append`).

Kafka compares with the leader's end at the fetch before.  A follower that is always a few responses
behind, however short a time that is, would never be caught up.  So an end of the leader is kept as
a mark until the follower has reached it: it was caught up when the mark was set.
"""

from typing import Final

import msgspec

from goqueue.cluster.replication.lag import AckTimes, SlowHold
from goqueue.cluster.replication.quota import CopyRate
from goqueue.model.ids import NO_NODE_EPOCH, Instant, NodeEpoch, NodeId, Offset

UNKNOWN: Final = Offset(-1)  # it has not asked in this epoch


class LostData(msgspec.Struct, frozen=True):
    """A follower asks for less than it had acknowledged in the same epoch: its disk lost some."""

    node: NodeId
    acked_offset: Offset
    asked_offset: Offset


class ReplicaProgress:
    """Of one follower, in one epoch of its leader."""

    __slots__ = (
        "_end_at_fetch",
        "_mark",
        "_marked_at",
        "ack_times",
        "caught_up_at",
        "copy_rate",
        "end_offset",
        "fetch_number",
        "fetched_at",
        "has_lost_data",
        "has_room",
        "hold",
        "node",
        "node_epoch",
        "served_at",
        "slow_since",
        "synced_offset",
    )

    def __init__(self, node: NodeId, now: Instant) -> None:
        self.node = node
        self.node_epoch = NO_NODE_EPOCH
        self.fetch_number = -1  # of its newest request
        self.synced_offset = UNKNOWN  # invariant: everything below was on its disk
        self.end_offset = UNKNOWN  # what it has written, synced or not
        self.has_lost_data = False
        self.has_room = True  # on its disk, by its own word
        self.fetched_at = now
        self.caught_up_at = now  # a new leader gives everyone the full time
        self.served_at: Instant | None = None  # since when it has bytes that it did not ack
        self.ack_times = AckTimes()
        self.hold = SlowHold()
        self.copy_rate: CopyRate | None = None  # None before it copied what others had already
        self.slow_since: Instant | None = None  # when it was first found slow, and at each look
        self._end_at_fetch = UNKNOWN  # the leader's end when it last asked
        self._mark = UNKNOWN  # the leader's end at an earlier fetch, until it has reached that
        self._marked_at = now

    @property
    def is_known(self) -> bool:
        return self.synced_offset != UNKNOWN

    def ack(
        self,
        *,
        node_epoch: NodeEpoch,
        fetch_number: int = -1,
        synced_offset: Offset,
        end_offset: Offset,
        leader_end: Offset,
        now: Instant,
        has_room: bool = True,
    ) -> LostData | None:
        """Take what it asked for as its word for what it has."""
        lost = None
        if synced_offset < self.synced_offset:
            lost = LostData(self.node, self.synced_offset, synced_offset)
            self.has_lost_data = True
        if self.served_at is not None:
            if synced_offset > self.synced_offset and node_epoch == self.node_epoch:
                self.ack_times.add(now, now - self.served_at)
            self.served_at = None  # whoever asks again without it did not get what was sent
        if synced_offset >= leader_end:
            self.caught_up_at = now
        elif synced_offset >= self._end_at_fetch:  # all that was there when it asked before
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        if synced_offset >= self._mark:
            self.caught_up_at = max(self.caught_up_at, self._marked_at)
            self._mark, self._marked_at = leader_end, now
        self.node_epoch = node_epoch
        self.fetch_number = fetch_number
        self.synced_offset = synced_offset
        self.end_offset = end_offset
        self.has_room = has_room
        self.fetched_at = now
        self._end_at_fetch = leader_end
        return lost

    def note_append(self, end_before: Offset, now: Instant) -> None:
        """The leader writes: a follower that has all before that was caught up until now.

        It does not ask again while there is nothing new, so its last fetch may be long ago.
        """
        if self.synced_offset >= end_before:
            self.caught_up_at = now

    def note_served(self, now: Instant) -> None:
        """Bytes are on their way to it: from now on its ack is awaited."""
        if self.served_at is None:
            self.served_at = now

    def note_copied(self, size: int, now: Instant) -> None:
        """Bytes are on their way to it, and it is not in sync."""
        if self.copy_rate is None:
            self.copy_rate = CopyRate(now)
        self.copy_rate.add(size, now)
