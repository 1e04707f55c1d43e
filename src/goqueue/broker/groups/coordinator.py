"""The group coordinator: runs group machines on `__groups` for all listeners.

In a cluster `__groups` has several partitions, the shards: a group belongs to one by its id, and
this node has the machines of the shards that it leads.  A broker that is alone has one shard, 0.

A machine parks a request as a token; here a token is a future.  A reply, and the wake-ups that
come with it, are released together when the decision's records are committed.

Watchers are long polls of members over HTTP, which look again when their group has changed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

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
    GroupRecord,
    HeartbeatRequest,
    HeartbeatResponse,
    Joined,
    JoinRequest,
    Left,
    LostMember,
    MaySee,
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

ParkedKey = tuple[int, Token]  # the shard, and what its machine calls the request
WakeReply = Joined | Synced | GroupError

JOIN_EPOCH: Final = 0  # of a member that joins


def only_shard(_: str) -> int:
    """Of a broker that is alone."""
    return 0


class Groups:
    """The verbs of consumer groups, for all listeners.  Refusals are raised as `GroupError`."""

    def __init__(
        self, clock: Clock, random: Random, shard_of: Callable[[str], int] = only_shard
    ) -> None:
        self._clock = clock
        self._random = random
        self._shard_of = shard_of
        self._hosts: dict[int, MachineHost[GroupMachine]] = {}  # by shard
        self.on_records: Callable[[GroupMachine, Sequence[GroupRecord]], None] | None = None
        self.barrier = Barrier(self)  # of verbs that look at all machines in several steps
        self.statistics = Statistics()  # of all groups that are coordinated here
        self._parked: dict[ParkedKey, asyncio.Future[WakeReply]] = {}
        self._watchers: dict[GroupId, dict[str, Waiter]] = {}  # by member
        self._waiting: dict[GroupId, set[str]] = {}  # members that wait for partitions
        self.commit_count = 0  # offsets committed since the start
        # Whether who subscribed by a regular expression may see a topic.
        self.may_see: MaySee | None = None
        # Somebody joins, by member id: raises what forbids it.
        self.check_join: Callable[[GroupId, str], None] = lambda _group, _member: None
        # Members of queue groups timed out.
        self.on_members_lost: Callable[[Iterable[LostMember]], None] = _nobody_minds
        # The marker of a producer came to a group.
        self.on_transaction_ended: Callable[[GroupId, int], None] = lambda _group, _producer: None

    def attach(self, host: MachineHost[GroupMachine], shard: int = 0) -> None:
        host.on_records = self.on_records
        self._hosts[shard] = host

    # --- shards -----------------------------------------------------------------------------------

    def host_of(self, group_id: GroupId) -> MachineHost[GroupMachine]:
        """Raises `NotCoordinator` unless this node coordinates the group."""
        host = self._hosts.get(self._shard_of(group_id))
        if host is None:
            raise _not_coordinator()
        return host

    @property
    def hosts(self) -> list[MachineHost[GroupMachine]]:
        """Of the shards that this node leads, in order."""
        return [host for _, host in sorted(self._hosts.items())]

    @property
    def shards(self) -> Mapping[int, MachineHost[GroupMachine]]:
        return self._hosts

    @property
    def host(self) -> MachineHost[GroupMachine]:
        """The first shard's, which is all groups of a broker that is alone."""
        if 0 not in self._hosts:
            raise _not_coordinator()
        return self._hosts[0]

    @property
    def is_coordinating(self) -> bool:
        """Whether this node coordinates any groups."""
        return bool(self._hosts)

    def coordinates(self, group_id: GroupId) -> bool:
        return self._shard_of(group_id) in self._hosts

    def barrier_of(self, *group_ids: GroupId) -> Barrier:
        """Of verbs that look at these groups, as far as they are coordinated here."""
        shards = {self._shard_of(each) for each in group_ids}
        return Barrier(*(self._hosts[each] for each in sorted(shards) if each in self._hosts))

    async def wait_settled(self) -> None:
        """Return when everything decided so far, in all shards, is committed."""
        for host in self.hosts:
            await host.wait_settled()

    # --- classic protocol -------------------------------------------------------------------------

    async def join(self, request: JoinRequest) -> Joined:
        self.check_join(request.group_id, request.member_id)
        member_id = self.new_member_id(request.client_id)
        outcome = await self._decide(
            request.group_id,
            lambda machine: machine.join(self._clock.steady(), request, member_id),
        )
        reply = await self._await_reply(request.group_id, outcome.reply)
        assert isinstance(reply, Joined)
        return reply

    async def sync(self, request: SyncRequest) -> Synced:
        outcome = await self._decide(
            request.group_id, lambda machine: machine.sync(self._clock.steady(), request)
        )
        reply = await self._await_reply(request.group_id, outcome.reply)
        assert isinstance(reply, Synced)
        return reply

    async def heartbeat(
        self, group_id: GroupId, member_id: str, *, generation: int, instance_id: str | None
    ) -> None:
        await self._decide(
            group_id,
            lambda machine: machine.heartbeat(
                self._clock.steady(),
                group_id,
                member_id,
                generation=generation,
                instance_id=instance_id,
            ),
        )

    async def leave(self, group_id: GroupId, leavers: Sequence[MemberIdentity]) -> tuple[Left, ...]:
        outcome = await self._decide(
            group_id, lambda machine: machine.leave(self._clock.steady(), group_id, leavers)
        )
        return outcome.reply

    # --- consumer protocol ------------------------------------------------------------------------

    async def consumer_heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        if request.member_epoch == JOIN_EPOCH:
            self.check_join(request.group_id, request.member_id)
        outcome = await self._decide(
            request.group_id,
            lambda machine: machine.consumer_heartbeat(self._clock.steady(), request),
        )
        return outcome.reply

    # --- share groups, and workers over HTTP ------------------------------------------------------

    async def share_heartbeat(self, request: ShareHeartbeatRequest) -> ShareHeartbeatResponse:
        if request.member_epoch == JOIN_EPOCH:
            self.check_join(request.group_id, request.member_id)
        outcome = await self._decide(
            request.group_id,
            lambda machine: machine.share_heartbeat(self._clock.steady(), request),
        )
        return outcome.reply

    def share_groups(self) -> Mapping[GroupId, ShareGroup]:
        """Live, and ahead of the log: for verbs that end with a barrier."""
        found = [each.ahead.share_groups() for each in self.hosts]
        return found[0] if len(found) == 1 else {key: each[key] for each in found for key in each}

    def share_group(self, group_id: GroupId) -> ShareGroup | None:
        """As `share_groups`, one of them; raises `NotCoordinator`."""
        return self.host_of(group_id).ahead.share_groups().get(group_id)

    def keep_share_session(self, group_id: GroupId, member_id: str) -> None:
        """The member is heard of; raises `UnknownMember`."""
        self.host_of(group_id).ahead.keep_share_session(self._clock.steady(), group_id, member_id)

    @contextlib.contextmanager
    def share_poll(self, group_id: GroupId, member_id: str) -> Iterator[None]:
        """The member's session does not end in the block; raises `UnknownMember`."""
        self.host_of(group_id).ahead.begin_share_poll(self._clock.steady(), group_id, member_id)
        try:
            yield
        finally:
            ahead = self.host_of(group_id).ahead
            ahead.end_share_poll(self._clock.steady(), group_id, member_id)

    async def delete_share_group(self, group_id: GroupId) -> None:
        """One without members, if there is such a one."""
        await self._decide(
            group_id, lambda machine: machine.delete_share_group(self._clock.steady(), group_id)
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
        outcome = await self._decide(
            request.group_id, lambda machine: machine.commit(self._clock.steady(), request)
        )
        if not request.is_transactional:
            self.commit_count += sum(each.error is None for each in outcome.reply)
        return outcome.reply

    def end_transaction(self, group_id: GroupId, marker: Marker) -> asyncio.Future[None]:
        """Commit or drop the offsets that wait for this marker; done when that is durable."""
        host = self.host_of(group_id)
        outcome, committed = host.submit_now(
            lambda machine: machine.end_transaction(self._clock.steady(), group_id, marker)
        )
        self.release_when_committed(self._shard_of(group_id), outcome, committed)
        self.commit_count += outcome.reply
        self.on_transaction_ended(group_id, marker.producer_id)
        return committed or host.all_committed()

    def pending_transactions(self, shard: int | None = None) -> set[tuple[GroupId, int, int]]:
        """Group, producer id and epoch of all offsets that wait; of one shard, or of all here."""
        hosts = self._hosts.values() if shard is None else [self._hosts[shard]]
        return {each for host in hosts for each in host.ahead.pending_offsets.transactions()}

    async def fetch(self, requests: Sequence[FetchRequest]) -> tuple[FetchedOffsets, ...]:
        """Raises `NotCoordinator` unless all of these groups are coordinated here."""
        if len(requests) == 1:
            host = self.host_of(requests[0].group_id)
            return await host.read(lambda machine: machine.fetch(requests).reply.reply)
        async with self.barrier_of(*(each.group_id for each in requests)):
            return tuple(
                found
                for each in requests
                for found in self.host_of(each.group_id).ahead.fetch([each]).reply.reply
            )

    def committed_offsets(self, group_id: GroupId) -> Mapping[TopicPartition, CommittedOffset]:
        """All that the group has committed, as it is now."""
        return self.host_of(group_id).ahead.committed_offsets(group_id)

    async def delete_offsets(
        self, group_id: GroupId, partitions: Sequence[TopicPartition]
    ) -> tuple[PartitionResult, ...]:
        outcome = await self._decide(
            group_id,
            lambda machine: machine.delete_offsets(self._clock.steady(), group_id, partitions),
        )
        return outcome.reply

    # --- administration ---------------------------------------------------------------------------

    def list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """Of the shards that this node leads; raises `NotCoordinator` when there are none.

        Ahead of the log: for metrics, and for verbs that end with a barrier.
        """
        if not self._hosts:
            raise _not_coordinator()
        return tuple(
            each
            for host in self.hosts
            for each in host.ahead.list_groups(states, types).reply.reply
        )

    def describe_ahead(self, group_id: GroupId) -> GroupDescription:
        """As `describe`, for verbs that end with a barrier."""
        return self.host_of(group_id).ahead.describe(group_id).reply.reply

    async def describe(self, group_id: GroupId) -> GroupDescription:
        host = self.host_of(group_id)
        return await host.read(lambda machine: machine.describe(group_id).reply.reply)

    async def refuse_members(self, group_id: GroupId) -> None:
        """Raise if the group has members that read its topics as streams."""
        host = self.host_of(group_id)
        try:
            host.ahead.refuse_streams(group_id)
        except GroupError:
            await host.wait_settled()
            raise

    async def delete_group(self, group_id: GroupId) -> None:
        await self._decide(
            group_id, lambda machine: machine.delete_group(self._clock.steady(), group_id)
        )

    # --- members over HTTP ------------------------------------------------------------------------

    def member_assignment(self, group_id: GroupId, member_id: str) -> MemberAssignment:
        """The member's assignment, ahead of the log; raises `UnknownMember`."""
        return self.host_of(group_id).ahead.member_assignment(group_id, member_id)

    def watch(self, group_id: GroupId, member_id: str, waiter: Waiter, *, is_waiting: bool) -> None:
        """Wake `waiter` when the member needs reconciliation; may be called again."""
        self._watchers.setdefault(group_id, {})[member_id] = waiter
        if is_waiting:
            self._waiting.setdefault(group_id, set()).add(member_id)
        else:
            self._stop_waiting(group_id, member_id)
        ahead = self.host_of(group_id).ahead
        if ahead.needs_reconciliation(group_id, member_id):  # since its last heartbeat
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

    def _notify_watchers(self, shard: int) -> None:
        if shard not in self._hosts:
            return
        changes = self._hosts[shard].ahead.take_changes()
        for group_id in changes.retargeted:
            self._wake(group_id, self._watchers.get(group_id, ()))
        for group_id in changes.released - changes.retargeted:
            self._wake(group_id, self._waiting.get(group_id, ()))

    def _wake(self, group_id: GroupId, member_ids: Iterable[str]) -> None:
        ahead = self.host_of(group_id).ahead
        for member_id in member_ids:
            if ahead.needs_reconciliation(group_id, member_id):
                self._watchers[group_id][member_id].wake()

    # --- topics -----------------------------------------------------------------------------------

    async def topics_changed(self, topics: Iterable[Topic]) -> None:
        """Tell the groups what topics there are now."""
        view = view_of(topics, self.may_see)
        await self._tell_all(lambda machine: machine.topics_changed(self._clock.steady(), view))

    async def topics_deleted(self, names: Iterable[TopicName]) -> None:
        deleted = tuple(names)
        await self._tell_all(lambda machine: machine.topics_deleted(self._clock.steady(), deleted))

    async def _tell_all(self, tell: Callable[[GroupMachine], GroupDecision[None]]) -> None:
        """All shards hear of it, also if one cannot write it down; then that is raised."""
        told = await asyncio.gather(
            *(self._decide_in(shard, tell) for shard in list(self._hosts)), return_exceptions=True
        )
        for error in (each for each in told if isinstance(each, BaseException)):
            raise error

    # --- deciding and waiting ---------------------------------------------------------------------

    def new_member_id(self, client_id: str) -> str:
        return f"{client_id or 'member'}-{self._random.bytes(16).hex()}"

    async def _decide(
        self, group_id: GroupId, decide: Callable[[GroupMachine], GroupDecision[ReplyT]]
    ) -> Outcome[ReplyT]:
        return await self._decide_in(self._shard_of(group_id), decide)

    async def _decide_in(
        self, shard: int, decide: Callable[[GroupMachine], GroupDecision[ReplyT]]
    ) -> Outcome[ReplyT]:
        host = self._hosts.get(shard)
        if host is None:
            raise _not_coordinator()
        try:
            outcome, committed = host.submit_now(decide)
        except GoQueueError:
            await host.wait_settled()
            raise
        parked = (shard, outcome.reply.token) if isinstance(outcome.reply, Parked) else None
        if parked is not None:  # before anybody is woken: it may be this very caller
            self._parked[parked] = asyncio.get_running_loop().create_future()
        self.release_when_committed(shard, outcome, committed)
        if committed is not None:
            try:
                await asyncio.shield(committed)
            except BaseException:
                if parked is not None:
                    self._abandon(parked)
                raise
        return outcome

    def release_when_committed(
        self, shard: int, outcome: Outcome[Any], committed: Committed
    ) -> None:
        """Answer the requests that a decision wakes; the host calls it for deadlines, too."""
        self._notify_watchers(shard)
        if outcome.lost:
            self.on_members_lost(outcome.lost)
        if not outcome.wakeups:
            return
        if committed is None:
            self._release(shard, outcome.wakeups)
        else:
            committed.add_done_callback(lambda done: self._release(shard, outcome.wakeups, done))

    def _release(
        self, shard: int, wakeups: Sequence[Wakeup], committed: asyncio.Future[None] | None = None
    ) -> None:
        """Each parked request gets its reply, or the reason why it could not be written."""
        cancelled = committed is not None and committed.cancelled()
        error = committed.exception() if committed is not None and not cancelled else None
        for wakeup in wakeups:
            future = self._parked.get((shard, wakeup.token))
            if future is None or future.done():  # gone since
                continue
            if error is None:
                future.set_result(wakeup.reply)
            else:
                future.set_exception(error)

    async def _await_reply(
        self, group_id: GroupId, reply: Joined | Synced | Parked
    ) -> Joined | Synced:
        """The reply, or the one that a wake-up brings; a request that is cancelled is abandoned."""
        if not isinstance(reply, Parked):
            return reply
        parked = self._shard_of(group_id), reply.token
        try:
            woken = await self._parked[parked]
        except asyncio.CancelledError:
            self._abandon(parked)
            raise
        finally:
            self._parked.pop(parked, None)
        if isinstance(woken, GroupError):
            raise woken
        return woken

    def _abandon(self, parked: ParkedKey) -> None:
        """The request with this token is gone, whether it was woken or not."""
        future = self._parked.pop(parked, None)
        if future is not None:
            future.cancel()
        shard, token = parked
        host = self._hosts.get(shard)
        if host is not None:
            host.ahead.abandon(self._clock.steady(), token)
            host.notice_deadline()

    # --- the seat ---------------------------------------------------------------------------------

    def resign_all(self) -> None:
        for shard in list(self._hosts):
            self.resign(shard)

    def resign(self, shard: int = 0) -> None:
        """Give up the seat: another node coordinates the shard, or none while this one is down.

        Whoever waits here is told to look for the coordinator; so is everybody who comes later,
        until a machine is attached again.  This one is dropped: what it decided and could not
        commit is nobody's state.
        """
        host = self._hosts.pop(shard, None)
        if host is None:
            return
        host.resign(_not_coordinator, _not_coordinator)
        for group_id in [each for each in self.statistics.groups if self._shard_of(each) == shard]:
            self.statistics.forget(group_id)
        for (parked_in, _), future in self._parked.items():
            if parked_in == shard and not future.done():
                future.set_exception(_not_coordinator())
        for group_id, watching in self._watchers.items():
            if self._shard_of(group_id) == shard:
                for waiter in watching.values():
                    waiter.wake()


def _not_coordinator() -> NotCoordinator:
    return NotCoordinator("this node does not coordinate the group")


def view_of(topics: Iterable[Topic], may_see: MaySee | None = None) -> Topics:
    """Those that groups may consume."""
    shown = (each for each in topics if not each.is_internal)
    return Topics(
        (TopicFacts(each.topic_id, each.name, each.partitions) for each in shown), may_see
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
