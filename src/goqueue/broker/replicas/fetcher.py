"""One connection to a node that leads: asks for what it has, writes and syncs it, asks again.

    ask ──> answer ──> write all of it ──> sync all logs that it touched, at the same time ──┐
     ^                                                                                       │
     └──────────── the next ask says that it is on this disk ────────────────────────────────┘

While the logs are synced, the leader's next records pile up: one sync serves them all.  There is
one request under way at a time.  When a connection breaks, a request may arrive after the next one:
each has a number, and the leader takes no older one.

What a round costs goes by what is new, not by how much is followed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from typing import Any, Final, Protocol

import msgspec
import structlog

from goqueue.broker.replicas.catch_up_quota import CatchUpQuota
from goqueue.broker.replicas.replica import FrozenReplica, Refused, ReplicaLog
from goqueue.broker.replicas.session import FollowerSession
from goqueue.broker.storage.disk_room import DiskRoom
from goqueue.model.errors import DiskFull, GoQueueError, NotLeader, StorageFailed, TopicNotFound
from goqueue.model.ids import Instant, NodeEpoch, NodeId, TopicId, TopicIdPartition
from goqueue.runtime import Clock
from goqueue.wire.fetch import FetchPartitionResponse, FetchRequest
from goqueue.wire.replica_fetch import ReplicaFetchResponse

NANOSECONDS: Final = 1_000_000_000

Answers = dict[ReplicaLog, FetchPartitionResponse]
OnProblem = Callable[[ReplicaLog, GoQueueError], None]
OnBeside = Callable[[ReplicaLog, int], None]  # the bits of `Bundle.beside`

_log = structlog.get_logger("goqueue.replication")


class ReplicationLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a follower asks for at a time, and how long it waits."""

    wait_ms: int = 500  # at the leader, for more
    partition_bytes: int = 1024 * 1024
    response_bytes: int = 10 * 1024 * 1024
    catch_up_response_bytes: int = 4 * 1024 * 1024
    timeout_seconds: float = 3.0  # for an answer, beyond `wait_ms`
    retry_seconds: float = 0.1  # after a leader refused a partition, or could not be reached
    retry_seconds_max: float = 1.0  # of a leader that cannot be reached: the delay doubles
    throttle_seconds_max: float = 1.0  # then a throttle is looked at again: it may be another
    full_disk_seconds: float = 1.0  # before a replica that had no room tries again


class LeaderNode(Protocol):
    """One connection to another node; requests are answered in their order."""

    async def fetch(self, request: FetchRequest, timeout_seconds: float) -> ReplicaFetchResponse:
        """Raises `OSError` or `GoQueueError`.

        After that the request may still arrive: whoever asks again has it on a new connection.
        """

    def close(self) -> None:
        """Nobody asks any more."""


class FollowerNode:
    """Who asks: this node, as its leaders know it."""

    def __init__(
        self, node: NodeId, node_epoch: Callable[[], NodeEpoch], room: DiskRoom | None = None
    ) -> None:
        self.node = node
        self.node_epoch = node_epoch
        self._room = room
        self.numbers = count()  # of all requests of this process

    @property
    def has_room(self) -> bool:
        """On its disk, as of the last look."""
        return self._room is None or not self._room.is_full

    def note_refused(self, size: int) -> None:
        """The disk had no room for so much."""
        if self._room is not None:
            self._room.note_refused(size)


class Fetcher:
    """Owned by `ReplicaFetchers`, which has one for each leader's node and lane."""

    def __init__(
        self,
        follower: FollowerNode,
        leader: LeaderNode,
        clock: Clock,
        limits: ReplicationLimits,
        on_problem: OnProblem,
        on_beside: OnBeside,
    ) -> None:
        self._follower = follower
        self._leader = leader
        self._clock = clock
        self._limits = limits
        self._on_problem = on_problem
        self._on_beside = on_beside
        self._session = FollowerSession()
        self._replicas: dict[TopicIdPartition, ReplicaLog] = {}
        self._changed: dict[ReplicaLog, None] = {}  # of which there is something new to tell
        self._paused: dict[ReplicaLog, Instant] = {}  # until then nothing is asked for them
        self._settling: dict[ReplicaLog, asyncio.Future[None]] = {}
        self._news = asyncio.Event()
        self._is_asking = False
        self._failures = 0  # to reach the leader, one after the other

    # --- what it copies ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._replicas)

    def add(self, replica: ReplicaLog, pause_until: Instant | None = None) -> None:
        self._replicas[replica.key] = replica
        if pause_until is not None:
            self._paused[replica] = pause_until
        elif not replica.has_room:
            self._paused[replica] = self._after(self._limits.full_disk_seconds)
        if pause_until is None or not replica.has_room:
            self._changed[replica] = None
        self._news.set()

    def remove(self, replica: ReplicaLog) -> Instant | None:
        """It is in no request from now on; gives until when it is paused."""
        if self._replicas.get(replica.key) is replica:
            del self._replicas[replica.key]
        self._changed.pop(replica, None)
        self._session.leave_out(replica)
        return self._paused.pop(replica, None)

    async def wait_settled(self, replica: ReplicaLog) -> None:
        """Return when nothing changes the log any more that began before it was removed."""
        settled = self._settling.get(replica)
        if settled is not None:
            await asyncio.wait([settled])

    async def wait_all_settled(self, seconds: float) -> None:
        """As `wait_settled`, of all logs; no longer than this."""
        if self._settling:
            await asyncio.wait(self._settling.values(), timeout=seconds)

    @property
    def is_settling(self) -> bool:
        """Whether logs are being changed; a log that is cut and not to its end is lost to us."""
        return bool(self._settling)

    @property
    def waiting_session(self) -> int:
        """The session whose fetch waits at the leader, to be interrupted; 0 for none."""
        return self._session.session_id if self._is_asking else 0

    def is_paused(self, replica: ReplicaLog) -> bool:
        return replica in self._paused

    # --- the loop ---------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self._run_once()
                except Exception as error:  # a bug of ours; the replicas are not given up for it
                    await self._wait_after_bug(error)
        finally:
            self._leader.close()

    async def _wait_after_bug(self, error: Exception) -> None:
        context = {"message": "copying from a leader failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)
        await self._wait_after_failure(error)

    async def _run_once(self) -> None:
        self._news.clear()
        self._end_pauses()
        self.hold_back()
        await self._prepare()
        interrupted = self.take_interrupted()
        is_idle = len(self._paused) == len(self._replicas) and not self._changed
        if is_idle and not interrupted:
            await self._wait_for_news()
            return
        answer = await self._ask(interrupted)
        if answer is not None:
            taken = await self._take(answer)
            await self.after_answer(taken)

    def hold_back(self) -> None:
        """Pause what this lane may not ask for now."""

    def take_interrupted(self) -> int:
        """A session of this node whose fetch is to be interrupted with the next request."""
        return 0

    async def after_answer(self, taken: Answers) -> None:
        """Do what this lane does between two requests."""

    @property
    def wait_ms(self) -> int:
        return self._limits.wait_ms

    @property
    def response_bytes(self) -> int:
        return self._limits.response_bytes

    def partition_bytes(self, replica: ReplicaLog) -> int:
        return self._limits.partition_bytes

    def _end_pauses(self) -> None:
        now = self._clock.instant()
        for replica in [each for each, until in self._paused.items() if until <= now]:
            if replica.has_room or self._follower.has_room:
                replica.has_room = True
                del self._paused[replica]
                self._changed[replica] = None
            else:
                self._paused[replica] = self._after(self._limits.full_disk_seconds)

    async def _prepare(self) -> None:
        """What a log has written and not synced is synced first: to ask is to acknowledge."""
        unsynced = [each for each in self._changed if each.needs_sync]
        await _all(self._try_replica(each, each.sync()) for each in unsynced)

    async def _wait_for_news(self) -> None:
        """Until there is a replica to ask for: a new one, or one whose pause is over."""
        if not self._paused:
            await self._news.wait()
            return
        seconds = (min(self._paused.values()) - self._clock.instant()) / NANOSECONDS
        waits = asyncio.ensure_future(self._news.wait())  # rule-ok: cancelled below
        try:
            await asyncio.wait([waits], timeout=max(0.001, seconds))
        finally:
            waits.cancel()

    async def _ask(self, interrupted: int) -> ReplicaFetchResponse | None:
        """The answer; None when there is none, after a delay."""
        request = self._request(interrupted)
        self._is_asking = True
        try:
            timeout = self._limits.timeout_seconds + request.max_wait_ms / 1000
            answer = await self._leader.fetch(request, timeout)
        except (OSError, GoQueueError) as error:
            await self._wait_after_failure(error)
            return None
        finally:
            self._is_asking = False
        if not self._session.take(answer):
            if request.session_epoch == 0:  # it does not even open one
                await self._wait_after_failure(Refused(f"fetch: error {answer.error_code}"))
            return None
        self._failures = 0
        return answer

    def _request(self, interrupted: int) -> FetchRequest:
        session = self._session
        if session.is_new:
            self._changed = {
                each: None
                for each in self._replicas.values()
                if each not in self._paused or not each.has_room
            }
        changed, self._changed = self._changed, {}
        topics = session.tell([each for each in changed if each.is_following], self.partition_bytes)
        return FetchRequest(
            max_wait_ms=self.wait_ms,
            min_bytes=1,
            max_bytes=self.response_bytes,
            isolation_level=0,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=topics,
            forgotten=session.take_left_out(),
            replica_id=self._follower.node,
            replica_epoch=self._follower.node_epoch(),
            fetch_number=next(self._follower.numbers),
            interrupted=interrupted,
        )

    async def _wait_after_failure(self, error: Exception) -> None:
        """The session may be there or not: the next one is a new one."""
        self._session.begin_anew()
        self._failures += 1
        if self._failures == 1:
            _log.warning("a leader does not answer", problem=str(error))
        limits = self._limits
        delay = limits.retry_seconds * 2 ** min(self._failures - 1, 10)
        await self._clock.sleep(min(delay, limits.retry_seconds_max))

    # --- an answer --------------------------------------------------------------------------------

    async def _take(self, answer: ReplicaFetchResponse) -> Answers:
        now = self._clock.now()
        taken: Answers = {}
        for topic in answer.topics:
            assert not isinstance(topic.topic, str)
            for part in topic.partitions:
                replica = self._session.find(TopicIdPartition(TopicId(topic.topic), part.partition))
                if replica is None or not replica.is_following:
                    continue  # it has another leader by now
                taken[replica] = part
                if part.beside:
                    self._on_beside(replica, part.beside)
                try:
                    replica.write(part, now)
                except GoQueueError as error:
                    self._pause(replica, error)
        await _all(self._settle(*each) for each in taken.items())
        for replica in taken:
            if replica.key in self._replicas and replica not in self._paused:
                self._changed[replica] = None
        return taken

    async def _settle(self, replica: ReplicaLog, answer: FetchPartitionResponse) -> None:
        if replica.is_following:
            await self._try_replica(replica, replica.settle(answer))

    async def _try_replica(self, replica: ReplicaLog, work: Coroutine[Any, Any, None]) -> None:
        settled = self._settling[replica] = asyncio.get_running_loop().create_future()
        try:
            await work
        except GoQueueError as error:
            self._pause(replica, error)
        else:
            if replica not in self._paused:
                replica.problem = None
        finally:
            del self._settling[replica]
            settled.set_result(None)

    def _pause(self, replica: ReplicaLog, error: GoQueueError) -> None:
        """Leave it out for a while, or for good, and say so once."""
        if not replica.is_following and not isinstance(error, FrozenReplica):
            return  # its role ended in between: nothing is wrong
        match error:
            case StorageFailed() | TopicNotFound():
                replica.is_stopped = True
                self.remove(replica)
            case DiskFull():
                replica.has_room = False
                self._follower.note_refused(self._limits.partition_bytes)
                self._pause_for(replica, self._limits.full_disk_seconds)
                self._changed[replica] = None  # the leader is told
            case _:
                self._pause_for(replica, self._limits.retry_seconds)
        if isinstance(error, NotLeader):
            return  # as it is for a moment whenever the leader changes
        if replica.problem != str(error):
            replica.problem = str(error)
            self._on_problem(replica, error)

    def _pause_for(self, replica: ReplicaLog, seconds: float) -> None:
        self._session.leave_out(replica)
        self._changed.pop(replica, None)
        self._paused[replica] = self._after(seconds)

    def _after(self, seconds: float) -> Instant:
        return Instant(self._clock.instant() + int(seconds * NANOSECONDS))


class CatchUpFetcher(Fetcher):
    """Copies what is not in sync yet; hands on to the other lane what is.

    Its requests do not wait at the leader: of whatever is here there is more to say.
    """

    def __init__(
        self,
        follower: FollowerNode,
        leader: LeaderNode,
        clock: Clock,
        limits: ReplicationLimits,
        on_problem: OnProblem,
        on_beside: OnBeside,
        in_sync: Fetcher,
        quota: CatchUpQuota,
    ) -> None:
        super().__init__(follower, leader, clock, limits, on_problem, on_beside)
        self._in_sync = in_sync
        self._quota = quota
        self._interrupts = False  # the other lane: it has more to ask for

    @property
    def wait_ms(self) -> int:
        return 0

    @property
    def response_bytes(self) -> int:
        return self._limits.catch_up_response_bytes

    def partition_bytes(self, replica: ReplicaLog) -> int:
        limit = self._limits.partition_bytes
        return self._quota.chunk_bytes(replica.partition, self._follower.node, limit)

    def hold_back(self) -> None:
        for replica in [each for each in self._changed if each.has_room]:
            delay = self._quota.delay_seconds(replica.partition, self._follower.node)
            if delay > 0:
                self._pause_for(replica, min(delay, self._limits.throttle_seconds_max))

    def take_interrupted(self) -> int:
        interrupts, self._interrupts = self._interrupts, False
        return self._in_sync.waiting_session if interrupts else 0

    async def after_answer(self, taken: Answers) -> None:
        for replica, answer in taken.items():
            if answer.records:
                size = len(answer.records)
                self._quota.note(replica.partition, self._follower.node, size)
            if replica.is_caught_up and replica.is_following and not self.is_paused(replica):
                self.remove(replica)
                self._in_sync.add(replica)
                self._interrupts = True
        if not taken and len(self):
            await self._clock.sleep(self._limits.retry_seconds)  # nothing, where there should be


class InSyncFetcher(Fetcher):
    """Copies what is in sync; hands back to the other lane what is not any more."""

    catch_up: CatchUpFetcher

    async def after_answer(self, taken: Answers) -> None:
        for replica in taken:
            if replica.is_following and (self.is_paused(replica) or not replica.is_caught_up):
                self.catch_up.add(replica, self.remove(replica))


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """At the same time; one alone without a task."""
    several = list(works)
    if len(several) == 1:
        await several[0]
    elif several:
        await asyncio.gather(*several)
