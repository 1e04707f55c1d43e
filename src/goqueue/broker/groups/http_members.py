"""Members that need no thread and no protocol of their own: the verbs behind HTTP's groups.

The broker is their client of the consumer protocol.  It keeps their positions (`Session`), walks
them to their target, reads for them, and commits for those who want that.  What a member does:

    join ──▶ poll ──▶ poll ──▶ … ──▶ leave

A poll is a heartbeat, also while it waits.  When the group divides its partitions anew, a waiting
poll ends at once with what has to be let go; the next poll, which says the new generation, shows
that this was done, and only then does somebody else get it.  Members that keep all they have never
stop.

What members are (their subscription, session, auto-commit) is durable in the group machine; the
sessions here are not.  After a restart a member polls as if nothing had happened and goes on from
what is committed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from goqueue.broker.broker import Broker
from goqueue.broker.groups.http_requests import (
    Delivered,
    JoinAsReader,
    Membership,
    NotAssigned,
    Polled,
    PollRequest,
    TopicPartition,
)
from goqueue.broker.groups.http_sessions import Session
from goqueue.broker.groups.poll_reader import Source, Taken, count_taken, rotated, take
from goqueue.broker.groups.topic_names import Places, Watching
from goqueue.broker.messages.publish import Patience
from goqueue.broker.storage.partition import Partition
from goqueue.groups import (
    CommitRequest,
    FetchRequest,
    HeartbeatRequest,
    MemberAssignment,
    OffsetToCommit,
    PartitionSet,
    ReaderTraits,
)
from goqueue.groups.consumer import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from goqueue.groups.errors import InvalidGroupRequest, UnknownMember
from goqueue.model.ids import GroupId, Offset, TopicIdPartition

BEATS_A_SESSION: Final = 3  # of a poll that waits
UNSETTLED_RETRY_MS: Final = 100  # when a transaction is about to move a position
SWEEP_SESSIONS_MIN: Final = 64

Key = tuple[GroupId, str]


class _Poll(msgspec.Struct, frozen=True):
    """One poll under way."""

    session: Session
    number: int
    request: PollRequest
    patience: Patience | None


class GroupMembers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._groups = broker.groups
        self._places = Places(broker)
        self._clock = broker.doors.clock
        self._sessions: dict[Key, Session] = {}
        self._sweep_at = SWEEP_SESSIONS_MIN

    # --- coming and going -------------------------------------------------------------------------

    async def join(self, request: JoinAsReader) -> Membership:
        """A new member, or with `member_id` one that starts over; it keeps what it had."""
        for topic in request.topics:
            self._broker.topic(topic)
        if request.instance_id is not None and not request.member_id:
            await self._take_seat(request.group_id, request.instance_id)
        member_id = request.member_id or self._groups.new_member_id(request.client_id)
        traits = self._traits(request)
        await self._groups.consumer_heartbeat(
            HeartbeatRequest(
                group_id=request.group_id,
                member_id=member_id,
                member_epoch=JOIN_EPOCH,
                instance_id=request.instance_id,
                client_id=request.client_id,
                client_host=request.client_host,
                rebalance_timeout_ms=request.rebalance_timeout_ms or -1,
                subscribed_names=request.topics,
                subscribed_regex=request.topics_regex or "",
                assignor=request.assignor,
                reader=traits,
            )
        )
        session = self._remember(Session(request.group_id, member_id, traits, self._clock.now()))
        return self._membership(session, self._walked(session))

    def _traits(self, request: JoinAsReader) -> ReaderTraits:
        session_timeout_ms = request.session_timeout_ms
        if session_timeout_ms is None:
            session_timeout_ms = self._broker.config.groups.session_timeout_ms
        return ReaderTraits(
            session_timeout_ms, request.auto_commit_interval_ms, request.starts_at_end
        )

    async def _take_seat(self, group_id: GroupId, instance_id: str) -> None:
        """A static member's next process need not wait for the session of the one before."""
        holder = self._groups.host.machine.static_member(group_id, instance_id)
        if holder is not None and holder.reader is not None:
            self._forget((group_id, holder.member_id))
            await self._groups.consumer_heartbeat(
                HeartbeatRequest(
                    group_id=group_id,
                    member_id=holder.member_id,
                    member_epoch=STATIC_LEAVE_EPOCH,
                    instance_id=instance_id,
                )
            )

    async def leave(self, group_id: GroupId, member_id: str, *, is_done: bool) -> None:
        """Go for good.  `is_done`: with all that was given; auto-commit commits it."""
        session = self._session(group_id, member_id)
        async with session.lock:
            if is_done:
                session.finish(tuple(session.given))
            await self._commit_processed(session)
            self._forget((group_id, member_id))
            await self._beat(session, LEAVE_EPOCH)

    # --- staying ----------------------------------------------------------------------------------

    async def heartbeat(self, group_id: GroupId, member_id: str, generation: int) -> Membership:
        session = self._session(group_id, member_id)
        async with session.lock:
            standing = await self._speak(session, generation)
            await self._commit_if_due(session)
            return self._membership(session, standing)

    async def revoke(
        self,
        group_id: GroupId,
        member_id: str,
        generation: int,
        partitions: Sequence[TopicPartition] | None,
    ) -> tuple[Membership, int]:
        """The member has let these go (None: all); also how many it still has to."""
        session = self._session(group_id, member_id)
        async with session.lock:
            standing = self._standing(session)
            session.check(generation, standing)
            session.spoke(generation)
            left = 0
            if partitions is not None:
                left = len(set(self._places.named(standing.revoking)) - set(partitions))
            if not left:
                standing = await self._let_go(session, standing)
            return self._membership(session, standing), left

    def assignment(self, group_id: GroupId, member_id: str) -> Membership:
        """Where the member stands; no sign of life of its own."""
        session = self._session(group_id, member_id)
        return self._membership(session, self._standing(session))

    # --- reading ----------------------------------------------------------------------------------

    async def poll(self, request: PollRequest, patience: Patience | None) -> Polled:
        """The next messages; empty when none came in time, or the member was told something."""
        session = self._session(request.group_id, request.member_id)
        number = session.begin_poll(None if patience is None else patience.waiter)
        poll = _Poll(session, number, request, patience)
        async with session.lock:
            session.check_poll(number)
            session.check(request.generation, self._standing(session))
            session.came_back(request.seen)
            standing = await self._speak(session, request.generation)
            answer = await self._try(poll, standing, is_last=patience is None)
        return answer if answer is not None else await self._wait(poll)

    async def _wait(self, poll: _Poll) -> Polled:
        session, patience = poll.session, poll.patience
        assert patience is not None
        has_time = True
        with Watching(self._broker, self._places, session, patience.waiter) as watching:
            while True:
                async with session.lock:
                    session.check_poll(poll.number)
                    standing = await self._beat_and_follow(session)
                    await watching.follow(standing)
                    answer = await self._try(poll, standing, is_last=not has_time)
                if answer is not None:
                    return answer
                has_time = await self._wait_a_while(session, patience)

    async def _try(
        self, poll: _Poll, standing: MemberAssignment, *, is_last: bool
    ) -> Polled | None:
        """The answer, if there is a reason for one."""
        session = poll.session
        await self._commit_if_due(session)
        taken = Taken()
        if not standing.revoking:  # else the member shall come back at once, and not be busy
            taken = await self._take(poll, standing)
        session.check_poll(poll.number)
        if poll.patience is not None and poll.patience.is_ended:  # nobody is there to see more
            await self._commit_processed(session)
            return self._answer(session, standing, Taken())
        for topic_partition, offset in taken.stepped_over.items():
            session.step_over(topic_partition, offset)
        is_news = bool(standing.revoking) or standing.assigned != session.told
        if taken.is_empty and not is_news and not is_last:
            return None
        return self._answer(session, standing, taken)

    async def _take(self, poll: _Poll, standing: MemberAssignment) -> Taken:
        sources = await self._sources(poll.session, standing)
        return await take(
            rotated(sources, poll.session.next_partition),
            limit=poll.request.limit,
            bytes_max=poll.request.bytes_max,
        )

    def _answer(self, session: Session, standing: MemberAssignment, taken: Taken) -> Polled:
        """Goes out at once: nothing is awaited between this and the caller."""
        portions = taken.portions
        session.give(
            {
                each.source.topic_partition: (each.source.offset, each.next_offset)
                for each in portions
            }
        )
        if portions:
            last = portions[-1].source.topic_partition
            session.next_partition = last._replace(partition=last.partition + 1)
        count_taken(taken)
        deliveries = [
            Delivered(
                each.source.partition.topic,
                each.source.partition.index,
                each.records,
                each.next_offset,
            )
            for each in portions
        ]
        membership = self._membership(session, standing)
        return Polled(membership, session.poll_id, deliveries, taken.problems)

    async def _wait_a_while(self, session: Session, patience: Patience) -> bool:
        """Until there may be something new, or something is due; False when the time is over."""
        timer = asyncio.get_running_loop().call_later(self._pause(session), patience.waiter.wake)
        try:
            return await patience.wait()
        finally:
            timer.cancel()

    def _pause(self, session: Session) -> float:
        """Seconds until the next heartbeat or auto-commit."""
        seconds = session.traits.session_timeout_ms / BEATS_A_SESSION / 1000
        commit_due = session.commit_due()
        if commit_due is not None:
            seconds = min(seconds, max(0.0, (commit_due - self._clock.instant()) / 1e9))
        if session.told is not None and len(session.positions) < len(session.told):
            seconds = min(seconds, UNSETTLED_RETRY_MS / 1000)
        return seconds

    async def _sources(self, session: Session, standing: MemberAssignment) -> list[Source]:
        """The member's partitions and where to go on in each."""
        await self._place(session, standing)
        found = []
        for topic_partition, offset in session.positions.items():
            partition = await self._places.partition(topic_partition)
            if partition is not None:
                found.append(
                    Source(topic_partition, partition, offset, session.traits.starts_at_end)
                )
        return found

    async def _place(self, session: Session, standing: MemberAssignment) -> None:
        """Find the positions that are missing: what is committed, or as the member wishes."""
        missing = [
            topic_partition
            for topic_partition in standing.assigned
            if topic_partition not in session.positions
        ]
        if not missing:
            return
        names = {topic_partition: self._places.name(topic_partition) for topic_partition in missing}
        keys = {
            topic_partition: (name, topic_partition.partition)
            for topic_partition, name in names.items()
            if name is not None
        }
        (fetched,) = self._groups.fetch(
            [FetchRequest(group_id=session.group_id, partitions=tuple(keys.values()))]
        )
        fresh: dict[TopicIdPartition, Offset] = {}
        for topic_partition, key in keys.items():
            if self._broker.transactions.has_pending_offsets(session.group_id, *key):
                continue  # its place is not settled yet
            committed = fetched.offsets[key]
            if committed is not None:
                session.positions[topic_partition] = committed.offset
            elif (partition := await self._places.partition(topic_partition)) is not None:
                fresh[topic_partition] = await self._start(session, partition)
        session.positions.update(fresh)
        if (
            fresh and session.traits.starts_at_end
        ):  # the end of today is what was meant, also tomorrow
            await self._commit(session, fresh)

    async def _start(self, session: Session, partition: Partition) -> Offset:
        if session.traits.starts_at_end:
            return (await self._broker.latest_offset(partition, committed_only=True)).offset
        return partition.log.start_offset

    # --- committing -------------------------------------------------------------------------------

    async def commit(
        self,
        group_id: GroupId,
        member_id: str,
        generation: int,
        offsets: Mapping[TopicPartition, Offset],
        metadata: str = "",
    ) -> None:
        """What the member says; all of it or nothing."""
        session = self._session(group_id, member_id)
        async with session.lock:
            standing = self._standing(session)
            session.check(generation, standing)
            ids = self._places.to_ids(offsets)
            strange = [
                each
                for each, topic_partition in ids.items()
                if topic_partition not in _owned(standing)
            ]
            if strange:
                raise NotAssigned(
                    f"{_listed(strange)}: not assigned to member {member_id!r} of {group_id!r}"
                )
            await self._commit(
                session, {ids[each]: offset for each, offset in offsets.items()}, metadata
            )

    async def _commit_if_due(self, session: Session) -> None:
        due = session.commit_due()
        if due is not None and self._clock.instant() >= due:
            await self._commit_processed(session)

    async def _commit_processed(self, session: Session) -> None:
        if session.processed:
            await self._commit(session, dict(session.processed))

    async def _commit(
        self, session: Session, offsets: dict[TopicIdPartition, Offset], metadata: str = ""
    ) -> None:
        names = {topic_partition: self._places.name(topic_partition) for topic_partition in offsets}
        wanted = tuple(
            OffsetToCommit(
                name, topic_partition.partition, offsets[topic_partition], metadata=metadata
            )
            for topic_partition, name in names.items()
            if name is not None
        )
        if wanted:
            standing = self._standing(session)
            results = await self._groups.commit(
                CommitRequest(
                    group_id=session.group_id,
                    member_id=session.member_id,
                    generation=standing.epoch,
                    instance_id=standing.member.instance_id,
                    offsets=wanted,
                )
            )
            for refused in (each.error for each in results if each.error is not None):
                raise refused
        session.committed(offsets, self._clock.instant())

    # --- the walk to the target -------------------------------------------------------------------

    async def _speak(self, session: Session, generation: int) -> MemberAssignment:
        """The member is here, and this is the generation it knows of."""
        standing = self._standing(session)
        session.check(generation, standing)
        session.spoke(generation)
        if session.has_let_go(generation, standing):
            return await self._let_go(session, standing)
        return await self._beat_and_follow(session)

    async def _let_go(self, session: Session, standing: MemberAssignment) -> MemberAssignment:
        """First what it was done with is committed, so that the next owner goes on behind it."""
        session.finish(standing.revoking)
        if session.processed.keys() & standing.revoking:
            await self._commit_processed(session)
        await self._beat(session, standing.epoch, owned=standing.assigned)
        return self._walked(session)

    async def _beat_and_follow(self, session: Session) -> MemberAssignment:
        await self._beat(session, self._standing(session).epoch)
        return self._walked(session)

    async def _beat(self, session: Session, epoch: int, owned: PartitionSet | None = None) -> None:
        standing = self._standing(session)
        await self._groups.consumer_heartbeat(
            HeartbeatRequest(
                group_id=session.group_id,
                member_id=session.member_id,
                member_epoch=epoch,
                instance_id=standing.member.instance_id,
                owned=owned,
            )
        )

    def _walked(self, session: Session) -> MemberAssignment:
        standing = self._standing(session)
        session.follow(standing)
        return standing

    def _standing(self, session: Session) -> MemberAssignment:
        try:
            return self._groups.member_assignment(session.group_id, session.member_id)
        except UnknownMember:
            self._forget((session.group_id, session.member_id))
            raise

    # --- sessions ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._sessions)

    def is_reader(self, group_id: GroupId, member_id: str) -> bool:
        """Whether the member is one of those that this broker reads for."""
        try:
            return self._groups.member_assignment(group_id, member_id).member.reader is not None
        except UnknownMember:
            return False

    def _session(self, group_id: GroupId, member_id: str) -> Session:
        """What is remembered of the member; begun anew when that was forgotten."""
        standing = self._groups.member_assignment(group_id, member_id)
        session = self._sessions.get((group_id, member_id))
        if session is not None:
            return session
        if standing.member.reader is None:
            raise InvalidGroupRequest(
                f"member {member_id!r} is a Kafka client's: it reads and commits for itself"
            )
        now = self._clock.now()
        return self._remember(Session(group_id, member_id, standing.member.reader, now))

    def _remember(self, session: Session) -> Session:
        key = (session.group_id, session.member_id)
        self._forget(key)
        self._sessions[key] = session
        if len(self._sessions) >= self._sweep_at:
            self._sweep()
        return session

    def _forget(self, key: Key) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            session.end_polls()

    def _sweep(self) -> None:
        """Forget members that are gone: so there are at most twice as many sessions as members."""
        gone = [key for key in self._sessions if not self.is_reader(*key)]
        for key in gone:
            self._forget(key)
        self._sweep_at = max(SWEEP_SESSIONS_MIN, 2 * len(self._sessions))

    def _membership(self, session: Session, standing: MemberAssignment) -> Membership:
        """What the member is told."""
        session.told = standing.assigned
        return Membership(
            member_id=session.member_id,
            generation=session.generation(standing),
            state=standing.state,
            partitions=self._places.named(standing.assigned),
            revoked=self._places.named(standing.revoking),
            session_timeout_ms=session.traits.session_timeout_ms,
        )


def _owned(standing: MemberAssignment) -> PartitionSet:
    return standing.assigned | standing.revoking


def _listed(partitions: Sequence[TopicPartition], most: int = 5) -> str:
    named = ", ".join(f"{each.topic}/{each.partition}" for each in partitions[:most])
    return named if len(partitions) <= most else f"{named} and {len(partitions) - most} more"
