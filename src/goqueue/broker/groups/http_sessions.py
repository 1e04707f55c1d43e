"""The session of a member over HTTP: its positions, and what was delivered to it.

    positions      where the next poll continues, for each partition of the member
    delivered      what the last response had; it is not known yet whether it arrived
    processed      what the member has finished, because it polled again; auto-commit commits this

    poll ── read from positions ─▶ delivered ── next poll ─▶ processed ── auto-commit ─▶ committed
                   ▲                   │
                   └──── was lost ─────┘

All of it may be forgotten: without it a member continues at the committed offsets.

**Generations.**  Every response tells the member a number, and every request repeats it.  It is the
member's epoch; while the member has to give up partitions, it is the epoch that comes next.  So a
request with the new number shows that the member knows of the revocation and has given them up.
"""

import asyncio
from collections.abc import Iterable

from goqueue.broker.storage.partition import Waiter
from goqueue.groups import NO_PARTITIONS, MemberAssignment, PartitionSet, ReaderTraits
from goqueue.groups.errors import IllegalGeneration, InvalidGroupRequest
from goqueue.model.ids import GroupId, Instant, Offset, Timestamp, TopicIdPartition

MILLISECOND = 1_000_000  # in the units of an instant

Span = tuple[Offset, Offset]  # from, and up to


class PollSuperseded(InvalidGroupRequest):
    """The member has begun another poll since; one at a time."""

    code = "poll_superseded"


class Session:
    """One member.  `lock` is held during a step of a request, not while a poll waits."""

    def __init__(
        self, group_id: GroupId, member_id: str, traits: ReaderTraits, now: Timestamp
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.traits = traits
        self.lock = asyncio.Lock()
        self.positions: dict[TopicIdPartition, Offset] = {}
        self.delivered: dict[TopicIdPartition, Span] = {}
        self.processed: dict[TopicIdPartition, Offset] = {}
        self.committed_at = Instant(0)
        self.poll_id = int(now)  # of the last answer; never the same again after a restart
        self.last_assigned: PartitionSet | None = None  # as the last response told the member
        self.reads_elsewhere = False  # it has partitions that other nodes lead
        # The partition that the next poll reads first, so that all have their turn.
        self.next_partition: TopicIdPartition | None = None
        self._last_generation: int | None = None  # the generation of the last request
        self._revoking: PartitionSet = NO_PARTITIONS
        self._revocation_epoch = 0  # requests of this generation or a later one know of `_revoking`
        self._poll_number = 0
        self._waiter: Waiter | None = None

    # --- generations ------------------------------------------------------------------------------

    def check(self, generation: int, assignment: MemberAssignment) -> None:
        """Refuse a generation that the member was not told.

        That of its last request is accepted: the response with the new one may have been lost.
        """
        if generation in (assignment.epoch, self._last_generation):
            return
        if self._last_generation is None and generation == assignment.previous_epoch > 0:
            return  # the same, after a restart of the broker
        if assignment.revoking and assignment.epoch < generation <= assignment.target_epoch:
            return
        raise IllegalGeneration(
            f"generation {generation} of member {self.member_id!r}, which is at"
            f" {self.generation(assignment)}: join again"
        )

    def generation(self, assignment: MemberAssignment) -> int:
        """The generation that the member is told."""
        return self._revocation_epoch if self._revoking else assignment.epoch

    def has_revoked(self, generation: int, assignment: MemberAssignment) -> bool:
        """Does this request show that the member knows which partitions it has to give up?"""
        return (
            bool(assignment.revoking)
            and self._was_told(assignment)
            and generation >= self._revocation_epoch
        )

    def _was_told(self, assignment: MemberAssignment) -> bool:
        return self._revoking == assignment.revoking

    def note_generation(self, generation: int) -> None:
        self._last_generation = generation

    def adopt(self, assignment: MemberAssignment) -> None:
        """Take over the member's new assignment: drop what it owns no more."""
        if not self._was_told(assignment):
            self._revoking = assignment.revoking
            self._revocation_epoch = assignment.target_epoch
        if self.positions.keys() - assignment.assigned:
            kept = assignment.assigned
            self.positions = {s: offset for s, offset in self.positions.items() if s in kept}
            owned = assignment.assigned | assignment.revoking
            self.delivered = {s: span for s, span in self.delivered.items() if s in owned}
            self.processed = {s: offset for s, offset in self.processed.items() if s in owned}

    # --- deliveries -------------------------------------------------------------------------------

    def deliver(self, spans: dict[TopicIdPartition, Span]) -> None:
        """A response with these goes out."""
        assert not self.delivered, "the poll that asks for more has said what became of it"
        self.delivered = spans
        self.positions.update((topic_partition, end) for topic_partition, (_, end) in spans.items())
        self.poll_id += 1

    def skip_to(self, topic_partition: TopicIdPartition, offset: Offset) -> None:
        """No messages for members are before `offset`, only markers of transactions, say."""
        self.positions[topic_partition] = offset
        if self.auto_commits and topic_partition not in self.delivered:
            self.processed[topic_partition] = offset

    def begin_next_poll(self, seen: int | None) -> None:
        """The member polls again; `seen` is the last response it got, if it says so."""
        if seen is None or seen == self.poll_id:
            self.finish(tuple(self.delivered))
        else:
            for topic_partition, (start, _) in self.delivered.items():
                if topic_partition in self.positions:
                    self.positions[topic_partition] = start
            self.delivered = {}

    def finish(self, partitions: Iterable[TopicIdPartition]) -> None:
        """The member has processed what was delivered of these partitions."""
        for topic_partition in partitions:
            span = self.delivered.pop(topic_partition, None)
            if span is not None and self.auto_commits:
                self.processed[topic_partition] = span[1]

    # --- auto-commit ------------------------------------------------------------------------------

    @property
    def auto_commits(self) -> bool:
        return self.traits.auto_commit_interval_ms is not None

    def commit_due(self) -> Instant | None:
        """When auto-commit has something to do; None when it has not."""
        interval_ms = self.traits.auto_commit_interval_ms
        if interval_ms is None or not self.processed:
            return None
        return Instant(self.committed_at + interval_ms * MILLISECOND)

    def note_committed(self, offsets: dict[TopicIdPartition, Offset], now: Instant) -> None:
        """These offsets are committed; what auto-commit had for these partitions is out of date."""
        self.committed_at = now
        for topic_partition in offsets:
            self.processed.pop(topic_partition, None)

    # --- one poll at a time -----------------------------------------------------------------------

    def begin_poll(self, waiter: Waiter | None) -> int:
        """The number of this poll; an earlier one that waits is woken to find itself superseded."""
        self.end_polls()
        self._waiter = waiter
        return self._poll_number

    def end_polls(self) -> None:
        self._poll_number += 1
        if self._waiter is not None:
            self._waiter.wake()
            self._waiter = None

    def check_poll(self, number: int) -> None:
        if number != self._poll_number:
            raise PollSuperseded(f"member {self.member_id!r} has begun another poll")
