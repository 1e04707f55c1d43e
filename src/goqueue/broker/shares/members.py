"""Members of share groups (KIP-932): who is there, what it wants, until when it is believed.

    join (epoch 0) ──> member ── heartbeat ──> member ── leave (epoch -1), or silence ──> gone

A closing client sends its last acknowledgements and its leave at the same time, on two connections.
So a leave ends the membership only: the share session and the leases stay until the session's final
request, the end of its connection, or the end of the visibility time-out, whichever comes first.

Every member is assigned all partitions of its topics: it is the queue that divides the messages.
So there is nothing to agree on, and nothing to keep: after a restart members join again, and what
they held is in the queue's state.  A member's epoch is its group's, as of its last heartbeat; the
one before is good once more, for the answer may have been lost.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
import structlog

from goqueue.broker.queues.service import Queues
from goqueue.broker.services import BrokerServices
from goqueue.broker.shares.sessions import ShareSessions
from goqueue.cluster import Topic
from goqueue.groups.errors import (
    FencedMemberEpoch,
    GroupMaxSizeReached,
    InvalidGroupRequest,
    UnknownMember,
)
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import GroupId, TopicId
from goqueue.queue import QueueSettings

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
UPKEEP_SECONDS: Final = 0.5

# As Kafka has it, a share group begins at the end of its topics unless it is told otherwise
# beforehand, and every delivery counts, however it ended.
DEFAULTS: Final = QueueSettings(start="latest", max_deliveries=5)

Assignment = dict[TopicId, int]  # topic to the number of its partitions, all of which are assigned

_log = structlog.get_logger("goqueue.shares")


class ShareBeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_names: tuple[str, ...] | None  # None: as before


class ShareBeat(msgspec.Struct, frozen=True):
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: Assignment | None  # None: as told before


class ShareMember:
    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = 0
        self.epoch_before = 0
        self.rack_id: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.subscribed_names: tuple[str, ...] = ()
        self.assigned: Assignment = {}
        self.deadline = 0  # instant


class ShareGroup:
    def __init__(self) -> None:
        self.epoch = 0
        self.members: dict[str, ShareMember] = {}


class ShareMembers:
    def __init__(self, services: BrokerServices, queues: Queues) -> None:
        self._services = services
        self._queues = queues
        self._clock = services.doors.clock
        self._config = services.config.groups
        self.groups: dict[GroupId, ShareGroup] = {}
        self.sessions = ShareSessions()

    # --- heartbeats -------------------------------------------------------------------------------

    async def beat(self, request: ShareBeatRequest) -> ShareBeat:
        """Join, stay or leave."""
        if not request.member_id:
            raise InvalidGroupRequest("a member of a share group names itself")
        if request.member_epoch == LEAVE_EPOCH:
            await self._leave(request.group_id, self._member(request).member_id)
            return ShareBeat(request.member_id, LEAVE_EPOCH, 0, None)
        if request.member_epoch == JOIN_EPOCH:
            await self._open(request)
        member, is_news = self._noted(request)
        assigned = self._assignment(member)
        if assigned != member.assigned:
            member.assigned, is_news = assigned, True
            self._bump(request.group_id, member)
        interval_ms = self._settings(request.group_id).heartbeat_interval_ms
        interval_ms = interval_ms or self._config.heartbeat_interval_ms
        return ShareBeat(member.member_id, member.epoch, interval_ms, assigned if is_news else None)

    async def _open(self, request: ShareBeatRequest) -> None:
        """What is published from now on is for the group."""
        if request.subscribed_names is None:
            raise InvalidGroupRequest("who joins says what it subscribes to")
        self._services.groups.refuse_members(request.group_id)
        topics = [topic.name for topic in self._there(request.subscribed_names)]
        await self._queues.begin(request.group_id, topics, DEFAULTS)

    def _member(self, request: ShareBeatRequest) -> ShareMember:
        group = self.groups.get(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is None:
            raise UnknownMember(f"{request.member_id!r} is not in {request.group_id!r}: join again")
        return member

    def _noted(self, request: ShareBeatRequest) -> tuple[ShareMember, bool]:
        """The member as it is from now on, and whether it must be told its assignment."""
        if request.member_epoch == JOIN_EPOCH:
            member, is_news = self._joined(request), True
        else:
            member = self._member(request)
            if request.member_epoch not in (member.epoch, member.epoch_before):
                raise FencedMemberEpoch(
                    f"member epoch {request.member_epoch}, it is {member.epoch} now"
                )
            is_news = request.member_epoch != member.epoch
        names = request.subscribed_names
        if names is not None and tuple(sorted(set(names))) != member.subscribed_names:
            member.subscribed_names, is_news = tuple(sorted(set(names))), True
            self.groups[request.group_id].epoch += 1
        if request.rack_id is not None:
            member.rack_id = request.rack_id
        group_epoch = self.groups[request.group_id].epoch
        if member.epoch != group_epoch:
            member.epoch_before, member.epoch = member.epoch, group_epoch
        session_ms = self._settings(request.group_id).session_timeout_ms
        session_ms = session_ms or self._config.session_timeout_ms
        member.deadline = self._clock.instant() + session_ms * 1_000_000
        return member, is_news

    def _joined(self, request: ShareBeatRequest) -> ShareMember:
        group = self.groups.setdefault(request.group_id, ShareGroup())
        member = group.members.get(request.member_id)
        if member is None:
            if len(group.members) >= self._config.members_max:
                raise GroupMaxSizeReached(f"{request.group_id!r} has {len(group.members)} members")
            member = group.members[request.member_id] = ShareMember(request.member_id)
            group.epoch += 1
        member.client_id, member.client_host = request.client_id, request.client_host
        return member

    def _bump(self, group_id: GroupId, member: ShareMember) -> None:
        if member.epoch_before == 0:  # it has just joined: there is no news in that
            return
        group = self.groups[group_id]
        group.epoch += 1
        member.epoch_before, member.epoch = member.epoch, group.epoch

    def _assignment(self, member: ShareMember) -> Assignment:
        return {topic.topic_id: topic.partitions for topic in self._there(member.subscribed_names)}

    def _there(self, names: Iterable[str]) -> list[Topic]:
        found = [self._services.topic(name) for name in names if self._services.has_topic(name)]
        return [topic for topic in found if not topic.is_internal]

    # --- leaving ----------------------------------------------------------------------------------

    async def _leave(self, group_id: GroupId, member_id: str) -> None:
        """End the membership; an open session may still bring acknowledgements."""
        self._remove(group_id, member_id)
        if not self.sessions.is_open(group_id, member_id):
            await self.release(group_id, member_id, failed=False)

    def _remove(self, group_id: GroupId, member_id: str) -> None:
        group = self.groups[group_id]
        del group.members[member_id]
        group.epoch += 1
        self._queues.forget_consumer(group_id, member_id)

    async def release(self, group_id: GroupId, member_id: str, *, failed: bool) -> None:
        """What the member holds comes back."""
        if group_id in self._queues.machine.groups:
            limit = self.deliveries_max(group_id)
            await self._queues.remove_consumer(
                group_id, member_id, failed=failed, deliveries_max=limit
            )

    def deliveries_max(self, group_id: GroupId) -> int:
        """How often share consumers get a record; Kafka's default if the group has no limit."""
        return self._settings(group_id).max_deliveries or DEFAULTS.max_deliveries

    def _settings(self, group_id: GroupId) -> QueueSettings:
        return self._queues.settings(group_id)

    def disconnected(self, connection: str) -> None:
        """Its sessions are over: others get what those members hold, and no failure is counted."""
        for group_id, member_id in self.sessions.close_all(connection):
            limit = self.deliveries_max(group_id)
            self._queues.release_consumer(group_id, member_id, deliveries_max=limit)

    async def run(self) -> None:
        """Part with members that are silent for too long; until cancelled."""
        while True:
            await self._clock.sleep(UPKEEP_SECONDS)
            for group_id, group in list(self.groups.items()):
                for member in list(group.members.values()):
                    if self._is_silent(group_id, member):
                        await self._part_with(group_id, member.member_id)

    def _is_silent(self, group_id: GroupId, member: ShareMember) -> bool:
        """Whether it is still there, and has not been heard of for too long."""
        group = self.groups.get(group_id)
        is_there = group is not None and group.members.get(member.member_id) is member
        return is_there and member.deadline <= self._clock.instant()

    async def _part_with(self, group_id: GroupId, member_id: str) -> None:
        _log.info("share member is silent", group=group_id, member=member_id)
        self._remove(group_id, member_id)
        self.sessions.close(group_id, member_id)
        try:
            await self.release(group_id, member_id, failed=True)
        except GoQueueError as error:  # the messages' own time will run out
            _log.warning("messages not taken back", group=group_id, problem=str(error))

    # --- asking -----------------------------------------------------------------------------------

    def member_count(self, group_id: GroupId) -> int:
        group = self.groups.get(group_id)
        return 0 if group is None else len(group.members)
