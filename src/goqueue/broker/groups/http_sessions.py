"""What the broker remembers of a member that it reads for: positions, and what the member has seen.

    positions      where the next poll goes on, for each partition the member has
    given          what the last answer gave; nobody knows yet whether it arrived
    processed      what the member is done with, because it came for more; auto-commit commits this

    poll ── read from positions ──▶ given ── next poll ──▶ processed ── auto-commit ──▶ committed
                   ▲                  │
                   └── was not seen ──┘

All of it may be forgotten: without it a member goes on from what is committed.

**Generations.**  A member is told a number with every answer and says it with every request.  It is
the member's epoch; while the member is told to let partitions go, it is the epoch it is on the way
to.  So a member that speaks with the new number has heard of it, and has let them go.
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
    """One member.  `lock` is held while it takes a step, not while it waits."""

    def __init__(
        self, group_id: GroupId, member_id: str, traits: ReaderTraits, now: Timestamp
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.traits = traits
        self.lock = asyncio.Lock()
        self.positions: dict[TopicIdPartition, Offset] = {}
        self.given: dict[TopicIdPartition, Span] = {}
        self.processed: dict[TopicIdPartition, Offset] = {}
        self.committed_at = Instant(0)
        self.poll_id = int(now)  # of the last answer; never the same again after a restart
        self.told: PartitionSet | None = None  # what the last answer said the member has
        # The partition that the next poll reads first, so that all have their turn.
        self.next_partition: TopicIdPartition | None = None
        self._spoken: int | None = None  # the generation of the last request
        self._revoking: PartitionSet = NO_PARTITIONS
        self._told_from = 0  # who speaks with this generation or more knows of `_revoking`
        self._poll_number = 0
        self._waiter: Waiter | None = None

    # --- generations ------------------------------------------------------------------------------

    def check(self, generation: int, standing: MemberAssignment) -> None:
        """Refuse who speaks with another generation than it was told.

        The one it spoke with last is let pass: then only the answer that told the new one was lost.
        """
        if generation in (standing.epoch, self._spoken):
            return
        if self._spoken is None and generation == standing.previous_epoch > 0:
            return  # the same, and the broker was restarted since
        if standing.revoking and standing.epoch < generation <= standing.target_epoch:
            return
        raise IllegalGeneration(
            f"generation {generation} of member {self.member_id!r}, which is at"
            f" {self.generation(standing)}: join again"
        )

    def generation(self, standing: MemberAssignment) -> int:
        """What the member is told."""
        return self._told_from if self._revoking else standing.epoch

    def has_let_go(self, generation: int, standing: MemberAssignment) -> bool:
        """Does this request show that the member heard what it has to let go?"""
        return bool(standing.revoking) and self._knows(standing) and generation >= self._told_from

    def _knows(self, standing: MemberAssignment) -> bool:
        return self._revoking == standing.revoking

    def spoke(self, generation: int) -> None:
        self._spoken = generation

    def follow(self, standing: MemberAssignment) -> None:
        """The member stands here now: forget what it has no more."""
        if not self._knows(standing):
            self._revoking = standing.revoking
            self._told_from = standing.target_epoch
        if self.positions.keys() - standing.assigned:
            kept = standing.assigned
            self.positions = {s: offset for s, offset in self.positions.items() if s in kept}
            owned = standing.assigned | standing.revoking
            self.given = {s: span for s, span in self.given.items() if s in owned}
            self.processed = {s: offset for s, offset in self.processed.items() if s in owned}

    # --- what was given and what became of it -----------------------------------------------------

    def give(self, spans: dict[TopicIdPartition, Span]) -> None:
        """An answer with these goes out."""
        assert not self.given, "the poll that asks for more has said what became of it"
        self.given = spans
        self.positions.update((topic_partition, end) for topic_partition, (_, end) in spans.items())
        self.poll_id += 1

    def step_over(self, topic_partition: TopicIdPartition, offset: Offset) -> None:
        """Nothing up to `offset` is for members: markers of transactions, say."""
        self.positions[topic_partition] = offset
        if self.commits_itself and topic_partition not in self.given:
            self.processed[topic_partition] = offset

    def came_back(self, seen: int | None) -> None:
        """The member polls again; `seen` is the last answer it got, if it says so."""
        if seen is None or seen == self.poll_id:
            self.finish(tuple(self.given))
        else:
            for topic_partition, (start, _) in self.given.items():
                if topic_partition in self.positions:
                    self.positions[topic_partition] = start
            self.given = {}

    def finish(self, partitions: Iterable[TopicIdPartition]) -> None:
        """The member is done with what it was given of these."""
        for topic_partition in partitions:
            span = self.given.pop(topic_partition, None)
            if span is not None and self.commits_itself:
                self.processed[topic_partition] = span[1]

    # --- auto-commit ------------------------------------------------------------------------------

    @property
    def commits_itself(self) -> bool:
        return self.traits.auto_commit_interval_ms is not None

    def commit_due(self) -> Instant | None:
        """When auto-commit has something to do; None when it has not."""
        interval_ms = self.traits.auto_commit_interval_ms
        if interval_ms is None or not self.processed:
            return None
        return Instant(self.committed_at + interval_ms * MILLISECOND)

    def committed(self, offsets: dict[TopicIdPartition, Offset], now: Instant) -> None:
        """These are committed, by whomever; what was to be committed there is out of date."""
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
