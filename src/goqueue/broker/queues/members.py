"""Members of groups that work topics off as queues: join, poll, heartbeat, leave.

    join ──▶ poll ──▶ ack … ──▶ poll ──▶ … ──▶ leave: what it holds goes to others, no failure
                                          └──▶ silence: the same, and its deliveries failed

A consumer need not be one: a member is a consumer that wants its death noticed.  It reads all
partitions of its topics; the queue divides the messages.  So a generation here says nothing about
partitions: it changes when the member joins again, and who still says the old one is refused.

Who is a member is durable in the queue machine; when it was last heard of is not.  After a restart
every member has its whole session once more.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
import structlog

from goqueue.broker.queues.service import Queues
from goqueue.broker.services import BrokerServices
from goqueue.groups.errors import (
    GroupMaxSizeReached,
    IllegalGeneration,
    InvalidSessionTimeout,
    UnknownMember,
)
from goqueue.model.errors import GoQueueError, TopicNotFound
from goqueue.model.ids import GroupId, TopicName
from goqueue.model.limits import RECEIVE_BYTES_MAX
from goqueue.model.machine import Decision
from goqueue.queue import QueueMachine, QueueMember, QueueRecord, QueueSettings
from goqueue.queue.delivery_batch import DeliveryBatch

UPKEEP_SECONDS: Final = 0.5
NO_GENERATION: Final = 0  # the machine gives one

Key = tuple[GroupId, str]

_log = structlog.get_logger("goqueue.queues")


class JoinAsWorker(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    topics: tuple[TopicName, ...]
    member_id: str = ""  # of a member that comes again; empty: a new one
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int | None = None
    starts_at_end: bool = False  # when the group is new


class QueuePoll(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    member_id: str
    generation: int | None = None  # None: not checked
    max_messages: int = 100
    max_bytes: int = RECEIVE_BYTES_MAX
    visibility_ms: int | None = None


class QueueMembers:
    def __init__(self, services: BrokerServices, queues: Queues) -> None:
        self._services = services
        self._queues = queues
        self._clock = services.doors.clock
        self._config = services.config.groups
        self._heard: dict[Key, int] = {}  # instants; who is missing is heard of when it is missed
        self._polling: Counter[Key] = Counter()  # polls under way

    # --- asking -----------------------------------------------------------------------------------

    def members(self, group_id: GroupId) -> dict[str, QueueMember]:
        group = self._queues.machine.groups.get(group_id)
        return {} if group is None else group.members

    def is_member(self, group_id: GroupId, member_id: str) -> bool:
        return member_id in self.members(group_id)

    def topics_of(self, member: QueueMember) -> list[TopicName]:
        """Those that are there."""
        return [name for name in member.topics if self._services.has_topic(name)]

    # --- coming and going -------------------------------------------------------------------------

    async def join(self, request: JoinAsWorker) -> QueueMember:
        """A new member, or with `member_id` one that starts over; it keeps what it holds."""
        for topic in request.topics:
            self._services.topic(topic)
        self._services.groups.refuse_members(request.group_id)
        member = self._wanted(request)
        start = QueueSettings(start="latest" if request.starts_at_end else "earliest")
        await self._queues.begin(request.group_id, request.topics, start)

        def decide(machine: QueueMachine) -> Decision[QueueRecord, QueueMember]:
            self._services.groups.refuse_members(request.group_id)
            self._refuse_crowd(request.group_id, member.member_id)
            return machine.join(request.group_id, member)

        joined = await self._queues.host.submit(decide)
        self._hear((request.group_id, joined.member_id))
        return joined

    def _wanted(self, request: JoinAsWorker) -> QueueMember:
        return QueueMember(
            member_id=request.member_id or self._services.groups.new_member_id(request.client_id),
            client_id=request.client_id,
            client_host=request.client_host,
            topics=tuple(dict.fromkeys(request.topics)),
            session_timeout_ms=self._session_timeout_ms(request),
            generation=NO_GENERATION,
            joined_at=self._clock.now(),
        )

    def _session_timeout_ms(self, request: JoinAsWorker) -> int:
        asked = request.session_timeout_ms
        if asked is None:
            settings = self._queues.settings(request.group_id)
            return settings.session_timeout_ms or self._config.session_timeout_ms
        least, most = self._config.session_timeout_ms_min, self._config.session_timeout_ms_max
        if not least <= asked <= most:
            raise InvalidSessionTimeout(f"session of {asked} ms, {least} to {most} are allowed")
        return asked

    def _refuse_crowd(self, group_id: GroupId, member_id: str) -> None:
        members = self.members(group_id)
        if member_id not in members and len(members) >= self._config.members_max:
            raise GroupMaxSizeReached(f"group {group_id!r} has {len(members)} members")

    async def leave(self, group_id: GroupId, member_id: str) -> None:
        """What it holds goes to others at once, and counts as no failure."""
        self._member(group_id, member_id)
        await self._part_with(group_id, member_id, failed=False)

    async def _part_with(self, group_id: GroupId, member_id: str, *, failed: bool) -> None:
        await self._queues.remove_consumer(group_id, member_id, failed=failed)
        self._heard.pop((group_id, member_id), None)

    # --- staying ----------------------------------------------------------------------------------

    def heartbeat(
        self, group_id: GroupId, member_id: str, generation: int | None = None
    ) -> QueueMember:
        member = self._member(group_id, member_id, generation)
        self._hear((group_id, member_id))
        return member

    async def poll(self, request: QueuePoll, wait_ms: int) -> list[DeliveryBatch]:
        """Messages to work on, waiting for the first; a sign of life from its start to its end."""
        group_id, member_id = request.group_id, request.member_id
        member = self._member(group_id, member_id, request.generation)
        with self._present((group_id, member_id)):
            try:
                deliveries = await self._queues.receive_batches(
                    self.topics_of(member),
                    group_id,
                    member_id,
                    max_messages=request.max_messages,
                    max_bytes=request.max_bytes,
                    wait_ms=wait_ms,
                    visibility_ms=request.visibility_ms,
                )
            except TopicNotFound:  # deleted meanwhile: the next poll does without it
                return []
        if deliveries and self.members(group_id).get(member_id) is not member:
            self._queues.release_batches(deliveries)
            self._member(group_id, member_id, member.generation)  # raises what it is now
        return deliveries

    @contextlib.contextmanager
    def _present(self, key: Key) -> Iterator[None]:
        self._polling[key] += 1
        try:
            yield
        finally:
            self._polling[key] -= 1
            if not self._polling[key]:
                del self._polling[key]
            if self.is_member(*key):
                self._hear(key)

    def _hear(self, key: Key) -> None:
        self._heard[key] = self._clock.instant()

    def _member(
        self, group_id: GroupId, member_id: str, generation: int | None = None
    ) -> QueueMember:
        member = self.members(group_id).get(member_id)
        if member is None:
            raise UnknownMember(f"no member {member_id!r} in group {group_id!r}: join again")
        if generation not in (None, member.generation):
            raise IllegalGeneration(
                f"generation {generation} of member {member_id!r}, which joined again as"
                f" {member.generation} since"
            )
        return member

    # --- silence ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Part with members that are silent for too long; until cancelled."""
        while True:
            await self._clock.sleep(UPKEEP_SECONDS)
            for key, member in self._all():
                if self._is_silent(key, member):
                    await self._lost(key)

    def _all(self) -> list[tuple[Key, QueueMember]]:
        return [
            ((group.group_id, member.member_id), member)
            for group in self._queues.machine.groups.values()
            for member in group.members.values()
        ]

    def _is_silent(self, key: Key, member: QueueMember) -> bool:
        if self._polling[key] or self.members(key[0]).get(key[1]) is not member:
            return False
        now = self._clock.instant()
        return now - self._heard.setdefault(key, now) >= member.session_timeout_ms * 1_000_000

    async def _lost(self, key: Key) -> None:
        _log.info("member is silent", group=key[0], member=key[1])
        try:
            await self._part_with(*key, failed=True)
        except GoQueueError as error:  # it is tried again
            _log.warning("member not parted with", group=key[0], problem=str(error))
