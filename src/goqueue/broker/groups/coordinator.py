"""The group coordinator: runs the group machine on `__groups` for all listeners.

The machine parks a request as a token; here a token is a future.  A reply, and the wake-ups that
come with it, are released together when the decision's records are committed.

Watchers are long polls of members over HTTP, which look again when their group has changed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from goqueue.broker.barrier import Barrier
from goqueue.broker.machine_host import Committed, MachineHost
from goqueue.broker.storage.partition import Waiter
from goqueue.cluster import Topic
from goqueue.groups import (
    CommitRequest,
    CommittedOffset,
    FetchedOffsets,
    FetchRequest,
    GroupDecision,
    GroupDescription,
    GroupListing,
    GroupMachine,
    HeartbeatRequest,
    HeartbeatResponse,
    Joined,
    JoinRequest,
    Left,
    LostMember,
    MemberAssignment,
    MemberIdentity,
    Outcome,
    Parked,
    PartitionResult,
    ShareGroup,
    ShareHeartbeatRequest,
    ShareHeartbeatResponse,
    ShareMember,
    Statistics,
    Synced,
    SyncRequest,
    Token,
    TopicFacts,
    Topics,
    Wakeup,
)
from goqueue.groups.errors import GroupError
from goqueue.model.errors import GoQueueError, NotCoordinator
from goqueue.model.ids import GroupId, TopicName, TopicPartition
from goqueue.model.markers import Marker
from goqueue.queue import QueueMember, QueueRegistry
from goqueue.runtime import Clock, Random

ReplyT = TypeVar("ReplyT")
WakeReply = Joined | Synced | GroupError


class Groups:
    """The verbs of consumer groups, for all listeners.  Refusals are raised as `GroupError`."""

    def __init__(self, clock: Clock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._host: MachineHost[GroupMachine] | None = None
        self.barrier = Barrier()  # of verbs that look at the machine in several steps
        self._parked: dict[Token, asyncio.Future[WakeReply]] = {}
        self._watchers: dict[GroupId, dict[str, Waiter]] = {}  # by member
        self._waiting: dict[GroupId, set[str]] = {}  # members that wait for partitions
        self.commit_count = 0  # offsets committed since the start
        # Members of queue groups timed out.
        self.on_members_lost: Callable[[Iterable[LostMember]], None] = _nobody_minds

    def attach(self, host: MachineHost[GroupMachine]) -> None:
        self._host = host
        self.barrier = Barrier(host)

    @property
    def host(self) -> MachineHost[GroupMachine]:
        """Raises `NotCoordinator` unless this node coordinates the groups."""
        if self._host is None:
            raise _not_coordinator()
        return self._host

    @property
    def is_coordinating(self) -> bool:
        return self._host is not None

    # --- classic protocol -------------------------------------------------------------------------

    async def join(self, request: JoinRequest) -> Joined:
        member_id = self.new_member_id(request.client_id)
        outcome = await self._decide(
            lambda machine: machine.join(self._clock.steady(), request, member_id)
        )
        reply = await self._await_reply(outcome.reply)
        assert isinstance(reply, Joined)
        return reply

    async def sync(self, request: SyncRequest) -> Synced:
        outcome = await self._decide(lambda machine: machine.sync(self._clock.steady(), request))
        reply = await self._await_reply(outcome.reply)
        assert isinstance(reply, Synced)
        return reply

    async def heartbeat(
        self, group_id: GroupId, member_id: str, *, generation: int, instance_id: str | None
    ) -> None:
        await self._decide(
            lambda machine: machine.heartbeat(
                self._clock.steady(),
                group_id,
                member_id,
                generation=generation,
                instance_id=instance_id,
            )
        )

    async def leave(self, group_id: GroupId, leavers: Sequence[MemberIdentity]) -> tuple[Left, ...]:
        outcome = await self._decide(
            lambda machine: machine.leave(self._clock.steady(), group_id, leavers)
        )
        return outcome.reply

    # --- consumer protocol ------------------------------------------------------------------------

    async def consumer_heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        outcome = await self._decide(
            lambda machine: machine.consumer_heartbeat(self._clock.steady(), request)
        )
        return outcome.reply

    # --- share groups, and workers over HTTP ------------------------------------------------------

    async def share_heartbeat(self, request: ShareHeartbeatRequest) -> ShareHeartbeatResponse:
        outcome = await self._decide(
            lambda machine: machine.share_heartbeat(self._clock.steady(), request)
        )
        return outcome.reply

    def share_groups(self) -> Mapping[GroupId, ShareGroup]:
        """Live, and ahead of the log: for verbs that end with a barrier."""
        return self.host.ahead.share_groups()

    def keep_share_session(self, group_id: GroupId, member_id: str) -> None:
        """The member is heard of; raises `UnknownMember`."""
        self.host.ahead.keep_share_session(self._clock.steady(), group_id, member_id)

    @contextlib.contextmanager
    def share_poll(self, group_id: GroupId, member_id: str) -> Iterator[None]:
        """The member's session does not end in the block; raises `UnknownMember`."""
        self.host.ahead.begin_share_poll(self._clock.steady(), group_id, member_id)
        try:
            yield
        finally:
            self.host.ahead.end_share_poll(self._clock.steady(), group_id, member_id)

    async def delete_share_group(self, group_id: GroupId) -> None:
        """One without members, if there is such a one."""
        await self._decide(
            lambda machine: machine.delete_share_group(self._clock.steady(), group_id)
        )

    async def take_over_members(self, queues: QueueRegistry) -> None:
        """Those that the log of queues kept, when it did; once."""
        epochs, members = queues.take_former_members()
        taken = tuple((group_id, share_member(each)) for group_id, each in members)
        await self.host.submit_or_defer(
            lambda machine: machine.take_over_share_members(epochs, taken)
        )

    # --- offsets ----------------------------------------------------------------------------------

    async def commit(self, request: CommitRequest) -> tuple[PartitionResult, ...]:
        outcome = await self._decide(lambda machine: machine.commit(self._clock.steady(), request))
        if not request.is_transactional:
            self.commit_count += sum(each.error is None for each in outcome.reply)
        return outcome.reply

    def end_transaction(self, group_id: GroupId, marker: Marker) -> asyncio.Future[None]:
        """Commit or drop the offsets that wait for this marker; done when that is durable."""
        outcome, committed = self.host.submit_now(
            lambda machine: machine.end_transaction(self._clock.steady(), group_id, marker)
        )
        self.release_when_committed(outcome, committed)
        self.commit_count += outcome.reply
        return committed or self.host.all_committed()

    async def fetch(self, requests: Sequence[FetchRequest]) -> tuple[FetchedOffsets, ...]:
        return await self.host.read(lambda machine: machine.fetch(requests).reply.reply)

    def committed_offsets(self, group_id: GroupId) -> Mapping[TopicPartition, CommittedOffset]:
        """All that the group has committed, as it is now."""
        return self.host.ahead.committed_offsets(group_id)

    async def delete_offsets(
        self, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> tuple[PartitionResult, ...]:
        outcome = await self._decide(
            lambda machine: machine.delete_offsets(self._clock.steady(), group_id, partitions)
        )
        return outcome.reply

    # --- administration ---------------------------------------------------------------------------

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """Ahead of the log: for metrics, and for verbs that end with a barrier."""
        return self.host.ahead.list_groups(states, types).reply.reply

    async def describe(self, group_id: GroupId) -> GroupDescription:
        return await self.host.read(lambda machine: machine.describe(group_id).reply.reply)

    async def refuse_members(self, group_id: GroupId) -> None:
        """Raise if the group has members that read its topics as streams."""
        try:
            self.host.ahead.refuse_streams(group_id)
        except GroupError:
            await self.host.settled()
            raise

    async def delete_group(self, group_id: GroupId) -> None:
        await self._decide(lambda machine: machine.delete_group(self._clock.steady(), group_id))

    @property
    def statistics(self) -> Statistics:
        return self.host.ahead.statistics

    # --- members over HTTP ------------------------------------------------------------------------

    def member_assignment(self, group_id: GroupId, member_id: str) -> MemberAssignment:
        """The member's assignment, ahead of the log; raises `UnknownMember`."""
        return self.host.ahead.member_assignment(group_id, member_id)

    def watch(self, group_id: GroupId, member_id: str, waiter: Waiter, *, is_waiting: bool) -> None:
        """Wake `waiter` when the member needs reconciliation; may be called again."""
        self._watchers.setdefault(group_id, {})[member_id] = waiter
        if is_waiting:
            self._waiting.setdefault(group_id, set()).add(member_id)
        else:
            self._stop_waiting(group_id, member_id)
        if self.host.ahead.needs_reconciliation(group_id, member_id):  # since its last heartbeat
            waiter.wake()

    @contextlib.contextmanager
    def watching(self, group_id: GroupId, member_id: str, waiter: Waiter) -> Iterator[None]:
        """Whoever watches in the block does not after it."""
        try:
            yield
        finally:
            self._unwatch(group_id, member_id, waiter)

    def _unwatch(self, group_id: GroupId, member_id: str, waiter: Waiter) -> None:
        watching = self._watchers.get(group_id, {})
        if watching.get(member_id) is not waiter:
            return  # the member's next poll watches by now
        del watching[member_id]
        self._stop_waiting(group_id, member_id)
        if not watching:
            del self._watchers[group_id]

    def _stop_waiting(self, group_id: GroupId, member_id: str) -> None:
        waiting = self._waiting.get(group_id)
        if waiting is not None:
            waiting.discard(member_id)
            if not waiting:
                del self._waiting[group_id]

    def _notify_watchers(self) -> None:
        changes = self.host.ahead.take_changes()
        for group_id in changes.retargeted:
            self._wake(group_id, self._watchers.get(group_id, ()))
        for group_id in changes.released - changes.retargeted:
            self._wake(group_id, self._waiting.get(group_id, ()))

    def _wake(self, group_id: GroupId, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            if self.host.ahead.needs_reconciliation(group_id, member_id):
                self._watchers[group_id][member_id].wake()

    # --- topics -----------------------------------------------------------------------------------

    async def topics_changed(self, topics: Iterable[Topic]) -> None:
        """Tell the groups what topics there are now."""
        view = view_of(topics)
        await self._decide(lambda machine: machine.topics_changed(self._clock.steady(), view))

    async def topics_deleted(self, names: Iterable[TopicName]) -> None:
        deleted = tuple(names)
        await self._decide(lambda machine: machine.topics_deleted(self._clock.steady(), deleted))

    # --- deciding and waiting ---------------------------------------------------------------------

    def new_member_id(self, client_id: str) -> str:
        return f"{client_id or 'member'}-{self._random.bytes(16).hex()}"

    async def _decide(
        self, decide: Callable[[GroupMachine], GroupDecision[ReplyT]]
    ) -> Outcome[ReplyT]:
        try:
            outcome, committed = self.host.submit_now(decide)
        except GoQueueError:
            await self.host.settled()
            raise
        token = outcome.reply.token if isinstance(outcome.reply, Parked) else None
        if token is not None:  # before anybody is woken: it may be this very caller
            self._parked[token] = asyncio.get_running_loop().create_future()
        self.release_when_committed(outcome, committed)
        if committed is not None:
            try:
                await asyncio.shield(committed)
            except BaseException:
                if token is not None:
                    self._abandon(token)
                raise
        return outcome

    def release_when_committed(self, outcome: Outcome[Any], committed: Committed) -> None:
        """Answer the requests that a decision wakes; the host calls it for deadlines, too."""
        self._notify_watchers()
        if outcome.lost:
            self.on_members_lost(outcome.lost)
        if not outcome.wakeups:
            return
        if committed is None:
            self._release(outcome.wakeups)
        else:
            committed.add_done_callback(lambda done: self._release(outcome.wakeups, done))

    def _release(
        self, wakeups: Sequence[Wakeup], committed: asyncio.Future[None] | None = None
    ) -> None:
        """Each parked request gets its reply, or the reason why it could not be written."""
        cancelled = committed is not None and committed.cancelled()
        error = committed.exception() if committed is not None and not cancelled else None
        for wakeup in wakeups:
            future = self._parked.get(wakeup.token)
            if future is None or future.done():  # gone since
                continue
            if error is None:
                future.set_result(wakeup.reply)
            else:
                future.set_exception(error)

    async def _await_reply(self, reply: Joined | Synced | Parked) -> Joined | Synced:
        """The reply, or the one that a wake-up brings; a request that is cancelled is abandoned."""
        if not isinstance(reply, Parked):
            return reply
        try:
            woken = await self._parked[reply.token]
        except asyncio.CancelledError:
            self._abandon(reply.token)
            raise
        finally:
            self._parked.pop(reply.token, None)
        if isinstance(woken, GroupError):
            raise woken
        return woken

    def _abandon(self, token: Token) -> None:
        """The request with this token is gone, whether it was woken or not."""
        future = self._parked.pop(token, None)
        if future is not None:
            future.cancel()
        if self._host is not None:
            self._host.ahead.abandon(self._clock.steady(), token)
            self._host.notice_deadline()

    # --- the seat ---------------------------------------------------------------------------------

    def resign(self) -> None:
        """Give up the seat: another node coordinates the groups, or none while this one is down.

        Whoever waits here is told to look for the coordinator; so is everybody who comes later,
        until a machine is attached again.  This one is dropped: what it decided and could not
        commit is nobody's state.
        """
        if self._host is not None:
            self._host.resign(_not_coordinator, _not_coordinator)
        self._host = None
        for future in self._parked.values():
            if not future.done():
                future.set_exception(_not_coordinator())
        for watching in self._watchers.values():
            for waiter in watching.values():
                waiter.wake()


def _not_coordinator() -> NotCoordinator:
    return NotCoordinator("this node does not coordinate the groups")


def view_of(topics: Iterable[Topic]) -> Topics:
    """Those that groups may consume."""
    return Topics(
        TopicFacts(topic.topic_id, topic.name, topic.partitions)
        for topic in topics
        if not topic.is_internal
    )


def _nobody_minds(_: Iterable[LostMember]) -> None:
    return None


def share_member(former: QueueMember) -> ShareMember:
    return ShareMember(
        member_id=former.member_id,
        client_id=former.client_id,
        client_host=former.client_host,
        subscribed_names=former.topics,
        epoch=former.generation,
        session_timeout_ms=former.session_timeout_ms,
    )
