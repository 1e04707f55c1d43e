"""Members of consumer groups over HTTP: they need no thread and no protocol of their own.

The broker is their client of the consumer protocol.  It keeps their positions (`http_sessions`),
reconciles them with their target, reads for them (`poll_reader`), and commits for those with
auto-commit.  What a member does:

    join ──▶ poll ──▶ poll ──▶ … ──▶ leave

A poll is a heartbeat, also while it waits.  When the group rebalances, a waiting poll ends at once
and names the partitions to give up; the member's next poll has the new generation, which shows that
it gave them up, and only then are they assigned to another member.  Members that keep all their
partitions never stop.

A member's subscription, session time-out and auto-commit are durable in the group machine; the
sessions here are not.  After a restart a member polls as before and continues at the committed
offsets.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from goqueue.broker.groups.http_requests import (
    Delivered,
    JoinAsReader,
    Membership,
    NotAssigned,
    Polled,
    PollRequest,
)
from goqueue.broker.groups.http_sessions import Session
from goqueue.broker.groups.poll_reader import (
    PollRecords,
    Source,
    count_records,
    read_partitions,
    rotate,
)
from goqueue.broker.groups.services import GroupServices
from goqueue.broker.groups.topic_names import TopicNames
from goqueue.broker.long_poll import LongPoll
from goqueue.broker.messages.remote_partition import (
    LOOK_SECONDS,
    Readable,
    is_remote,
    visible_end,
)
from goqueue.groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    CommitRequest,
    CommittedOffset,
    FetchRequest,
    GroupMachine,
    HeartbeatRequest,
    MemberAssignment,
    MemberState,
    OffsetToCommit,
    PartitionSet,
    ReaderTraits,
)
from goqueue.groups.errors import InvalidGroupRequest, UnknownMember
from goqueue.model import ids
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, Offset, TopicIdPartition
from goqueue.model.topic_partition import TopicPartition

HEARTBEATS_A_SESSION: Final = 3  # of a poll that waits
UNSETTLED_RETRY_MS: Final = 100  # when a transaction is about to move a position
SWEEP_SESSIONS_MIN: Final = 64

Key = tuple[GroupId, str]


class _Poll(msgspec.Struct, frozen=True):
    """One poll under way."""

    session: Session
    number: int
    request: PollRequest
    long_poll: LongPoll | None


class GroupMembers:
    def __init__(self, services: GroupServices) -> None:
        self._services = services
        self._groups = services.groups
        self._names = TopicNames(services)
        self._clock = services.environment.clock
        self._sessions: dict[Key, Session] = {}
        self._sweep_at = SWEEP_SESSIONS_MIN

    # --- coming and going -------------------------------------------------------------------------

    async def join(self, request: JoinAsReader) -> Membership:
        """A new member, or with `member_id` one that joins again and keeps its partitions."""
        async with self._groups.barrier_of(request.group_id):
            return await self._join(request)

    async def _join(self, request: JoinAsReader) -> Membership:
        for topic in request.topics:
            self._services.topic(topic)
        if request.instance_id is not None and not request.member_id:
            await self._replace_static_member(request.group_id, request.instance_id)
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
                viewer=request.viewer,
                assignor=request.assignor,
                reader=traits,
            )
        )
        session = self._remember(Session(request.group_id, member_id, traits, self._clock.now()))
        return self._membership(session, self._reconcile(session))

    def _traits(self, request: JoinAsReader) -> ReaderTraits:
        session_timeout_ms = request.session_timeout_ms
        if session_timeout_ms is None:
            session_timeout_ms = self._services.config.groups.session_timeout_ms
        return ReaderTraits(
            session_timeout_ms, request.auto_commit_interval_ms, request.starts_at_end
        )

    async def _replace_static_member(self, group_id: GroupId, instance_id: str) -> None:
        """A static member's next process need not wait for the session of the one before."""
        holder = self._groups.host_of(group_id).ahead.static_member(group_id, instance_id)
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
        """Leave the group.  `is_done`: what was delivered is processed; auto-commit commits it."""
        session = await self._find_session(group_id, member_id)
        async with session.lock:
            if is_done:
                session.finish(tuple(session.delivered))
            await self._commit_processed(session)
            self._forget((group_id, member_id))
            await self._send_heartbeat(session, LEAVE_EPOCH)

    # --- staying ----------------------------------------------------------------------------------

    async def heartbeat(self, group_id: GroupId, member_id: str, generation: int) -> Membership:
        session = await self._find_session(group_id, member_id)
        async with self._groups.barrier_of(group_id), session.lock:
            assignment = await self._handle_heartbeat(session, generation)
            await self._commit_if_due(session)
            return self._membership(session, assignment)

    async def revoke(
        self,
        group_id: GroupId,
        member_id: str,
        generation: int,
        partitions: Sequence[TopicPartition] | None,
    ) -> tuple[Membership, int]:
        """The member gave these up (None: all); also how many it still has to give up."""
        session = await self._find_session(group_id, member_id)
        async with self._groups.barrier_of(group_id), session.lock:
            assignment = self._find_assignment(session)
            session.check(generation, assignment)
            session.note_generation(generation)
            left = 0
            if partitions is not None:
                left = len(set(self._names.to_names(assignment.revoking)) - set(partitions))
            if not left:
                assignment = await self._complete_revocation(session, assignment)
            return self._membership(session, assignment), left

    async def assignment(self, group_id: GroupId, member_id: str) -> Membership:
        """The member's assignment; this does not prolong its session."""
        async with self._groups.barrier_of(group_id):
            session = self._session(group_id, member_id)
            return self._membership(session, self._find_assignment(session))

    # --- reading ----------------------------------------------------------------------------------

    async def poll(self, request: PollRequest, long_poll: LongPoll | None) -> Polled:
        """The next messages; empty when none came in time, or when the assignment changed."""
        try:
            return await self._poll(request, long_poll)
        except GoQueueError:
            await self._groups.host_of(request.group_id).wait_settled()
            raise

    async def _poll(self, request: PollRequest, long_poll: LongPoll | None) -> Polled:
        session = self._session(request.group_id, request.member_id)
        number = session.begin_poll(long_poll)
        poll = _Poll(session, number, request, long_poll)
        async with session.lock:
            session.check_poll(number)
            session.check(request.generation, self._find_assignment(session))
            session.begin_next_poll(request.seen)
            assignment = await self._handle_heartbeat(session, request.generation)
            answer = await self._try(poll, assignment, is_last=long_poll is None)
        return answer if answer is not None else await self._wait(poll)

    async def _wait(self, poll: _Poll) -> Polled:
        session, long_poll = poll.session, poll.long_poll
        assert long_poll is not None
        has_time = True
        with long_poll, self._groups.watching(session.group_id, session.member_id, long_poll):
            while True:
                async with session.lock:
                    session.check_poll(poll.number)
                    assignment = await self._heartbeat_and_reconcile(session)
                    await self._subscribe(long_poll, session, assignment)
                    answer = await self._try(poll, assignment, is_last=not has_time)
                if answer is not None:
                    return answer
                has_time = await long_poll.wait(self._seconds_to_wait(session))

    async def _subscribe(
        self, long_poll: LongPoll, session: Session, assignment: MemberAssignment
    ) -> None:
        """To the partitions that the member has now, and to changes of its group."""
        is_waiting = assignment.state is MemberState.WAITING
        self._groups.watch(session.group_id, session.member_id, long_poll, is_waiting=is_waiting)
        partitions = await self._names.partitions(assignment.assigned)
        session.reads_elsewhere = is_remote(partitions)
        long_poll.subscribe(partitions)

    async def _try(
        self, poll: _Poll, assignment: MemberAssignment, *, is_last: bool
    ) -> Polled | None:
        """The answer, if there is a reason for one."""
        session = poll.session
        await self._commit_if_due(session)
        found = PollRecords()
        if not assignment.revoking:  # else the member shall come back at once, and not be busy
            found = await self._read(poll, assignment)
        # What the member is told of its assignment is committed.
        await self._groups.host_of(session.group_id).wait_settled()
        session.check_poll(poll.number)
        if poll.long_poll is not None and poll.long_poll.is_ended:  # nobody is there to see more
            await self._commit_processed(session)
            return self._answer(session, assignment, PollRecords())
        for topic_partition, offset in found.skipped.items():
            session.skip_to(topic_partition, offset)
        is_news = bool(assignment.revoking) or assignment.assigned != session.last_assigned
        if found.is_empty and not is_news and not is_last:
            return None
        return self._answer(session, assignment, found)

    async def _read(self, poll: _Poll, assignment: MemberAssignment) -> PollRecords:
        sources = await self._sources(poll.session, assignment)
        return await read_partitions(
            rotate(sources, poll.session.next_partition),
            limit=poll.request.limit,
            bytes_max=poll.request.bytes_max,
        )

    def _answer(self, session: Session, assignment: MemberAssignment, found: PollRecords) -> Polled:
        """The response; nothing may be awaited between this and the caller."""
        portions = found.portions
        session.deliver(
            {
                each.source.topic_partition: (each.source.offset, each.next_offset)
                for each in portions
            }
        )
        if portions:
            last = portions[-1].source.topic_partition
            session.next_partition = last._replace(partition=last.partition + 1)
        count_records(found, session.group_id, session.member_id)
        deliveries = [
            Delivered(
                each.source.partition.topic,
                each.source.partition.index,
                each.records,
                each.next_offset,
            )
            for each in portions
        ]
        membership = self._membership(session, assignment)
        return Polled(membership, session.poll_id, deliveries, found.problems)

    def _seconds_to_wait(self, session: Session) -> float:
        """Seconds until the next heartbeat or auto-commit."""
        seconds = session.traits.session_timeout_ms / HEARTBEATS_A_SESSION / 1000
        if session.reads_elsewhere:
            seconds = min(seconds, LOOK_SECONDS)
        commit_due = session.commit_due()
        if commit_due is not None:
            seconds = min(seconds, max(0.0, (commit_due - self._clock.instant()) / 1e9))
        if session.last_assigned is not None and len(session.positions) < len(
            session.last_assigned
        ):
            seconds = min(seconds, UNSETTLED_RETRY_MS / 1000)
        return seconds

    async def _sources(self, session: Session, assignment: MemberAssignment) -> list[Source]:
        """The member's partitions, each with its position."""
        await self._load_positions(session, assignment)
        found = []
        for topic_partition, offset in session.positions.items():
            partition = await self._names.partition(topic_partition)
            if partition is not None:
                found.append(
                    Source(topic_partition, partition, offset, session.traits.starts_at_end)
                )
        return found

    async def _load_positions(self, session: Session, assignment: MemberAssignment) -> None:
        """Load missing positions: committed offsets, or the start or end as the member chose."""
        missing = [
            topic_partition
            for topic_partition in assignment.assigned
            if topic_partition not in session.positions
        ]
        if not missing:
            return
        names = {topic_partition: self._names.find(topic_partition) for topic_partition in missing}
        keys = {
            topic_partition: ids.TopicPartition(name, topic_partition.partition)
            for topic_partition, name in names.items()
            if name is not None
        }
        fetched = await self._fetch_stable(session.group_id, tuple(keys.values()))
        fresh: dict[TopicIdPartition, Offset] = {}
        for topic_partition, key in keys.items():
            if key not in fetched:
                continue
            committed = fetched[key]
            if committed is not None:
                session.positions[topic_partition] = committed.offset
            elif (partition := await self._names.partition(topic_partition)) is not None:
                fresh[topic_partition] = await self._start_offset(session, partition)
        session.positions.update(fresh)
        if (
            fresh and session.traits.starts_at_end
        ):  # the end of today is what was meant, also tomorrow
            await self._commit(session, fresh)

    async def _fetch_stable(
        self, group_id: GroupId, partitions: tuple[ids.TopicPartition, ...]
    ) -> dict[ids.TopicPartition, CommittedOffset | None]:
        """The committed offsets, without those that a transaction is about to commit."""

        def look(machine: GroupMachine) -> dict[ids.TopicPartition, CommittedOffset | None]:
            wanted = FetchRequest(group_id=group_id, partitions=partitions)
            (fetched,) = machine.fetch([wanted]).reply.reply
            pending = machine.pending_offsets.of(group_id)
            return {each: at for each, at in fetched.offsets.items() if each not in pending}

        return await self._groups.host_of(group_id).read(look)

    async def _start_offset(self, session: Session, partition: Readable) -> Offset:
        if session.traits.starts_at_end:
            return await visible_end(self._services, partition)
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
        """Commit the offsets that the member names; all of them or none."""
        session = await self._find_session(group_id, member_id)
        async with self._groups.barrier_of(group_id), session.lock:
            assignment = self._find_assignment(session)
            session.check(generation, assignment)
            ids = self._names.to_ids(offsets)
            strange = [
                each
                for each, topic_partition in ids.items()
                if topic_partition not in _list_owned(assignment)
            ]
            if strange:
                raise NotAssigned(
                    f"{_list_names(strange)}: not assigned to member {member_id!r} of {group_id!r}"
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
        names = {topic_partition: self._names.find(topic_partition) for topic_partition in offsets}
        wanted = tuple(
            OffsetToCommit(
                name, topic_partition.partition, offsets[topic_partition], metadata=metadata
            )
            for topic_partition, name in names.items()
            if name is not None
        )
        if wanted:
            assignment = self._find_assignment(session)
            results = await self._groups.commit(
                CommitRequest(
                    group_id=session.group_id,
                    member_id=session.member_id,
                    generation=assignment.epoch,
                    instance_id=assignment.member.instance_id,
                    offsets=wanted,
                )
            )
            for refused in (each.error for each in results if each.error is not None):
                raise refused
        session.note_committed(offsets, self._clock.instant())

    # --- reconciliation ---------------------------------------------------------------------------

    async def _handle_heartbeat(self, session: Session, generation: int) -> MemberAssignment:
        """A request of the member is a heartbeat, and its generation shows what it knows."""
        assignment = self._find_assignment(session)
        session.check(generation, assignment)
        session.note_generation(generation)
        if session.has_revoked(generation, assignment):
            return await self._complete_revocation(session, assignment)
        return await self._heartbeat_and_reconcile(session)

    async def _complete_revocation(
        self, session: Session, assignment: MemberAssignment
    ) -> MemberAssignment:
        """Processed messages are committed first, so that the next owner continues after them."""
        session.finish(assignment.revoking)
        if session.processed.keys() & assignment.revoking:
            await self._commit_processed(session)
        await self._send_heartbeat(session, assignment.epoch, owned=assignment.assigned)
        return self._reconcile(session)

    async def _heartbeat_and_reconcile(self, session: Session) -> MemberAssignment:
        await self._send_heartbeat(session, self._find_assignment(session).epoch)
        return self._reconcile(session)

    async def _send_heartbeat(
        self, session: Session, epoch: int, owned: PartitionSet | None = None
    ) -> None:
        assignment = self._find_assignment(session)
        await self._groups.consumer_heartbeat(
            HeartbeatRequest(
                group_id=session.group_id,
                member_id=session.member_id,
                member_epoch=epoch,
                instance_id=assignment.member.instance_id,
                owned=owned,
            )
        )

    def _reconcile(self, session: Session) -> MemberAssignment:
        assignment = self._find_assignment(session)
        session.adopt(assignment)
        return assignment

    def _find_assignment(self, session: Session) -> MemberAssignment:
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

    async def _find_session(self, group_id: GroupId, member_id: str) -> Session:
        async with self._groups.barrier_of(group_id):
            return self._session(group_id, member_id)

    def _session(self, group_id: GroupId, member_id: str) -> Session:
        """The member's session; a new one if the broker was restarted since."""
        assignment = self._groups.member_assignment(group_id, member_id)
        session = self._sessions.get((group_id, member_id))
        if session is not None:
            return session
        if assignment.member.reader is None:
            raise InvalidGroupRequest(
                f"member {member_id!r} is a Kafka client's: it reads and commits for itself"
            )
        now = self._clock.now()
        return self._remember(Session(group_id, member_id, assignment.member.reader, now))

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

    def _membership(self, session: Session, assignment: MemberAssignment) -> Membership:
        """The member's assignment, as its response has it."""
        session.last_assigned = assignment.assigned
        return Membership(
            member_id=session.member_id,
            generation=session.generation(assignment),
            state=assignment.state,
            partitions=self._names.to_names(assignment.assigned),
            revoked=self._names.to_names(assignment.revoking),
            session_timeout_ms=session.traits.session_timeout_ms,
        )


def _list_owned(assignment: MemberAssignment) -> PartitionSet:
    return assignment.assigned | assignment.revoking


def _list_names(partitions: Sequence[TopicPartition], most: int = 5) -> str:
    names = ", ".join(f"{each.topic}/{each.partition}" for each in partitions[:most])
    return names if len(partitions) <= most else f"{names} and {len(partitions) - most} more"
