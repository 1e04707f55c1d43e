"""Members of queue groups: share consumers, and workers over HTTP.

    worker   join ──▶ poll ──▶ ack … ──▶ leave: what it holds goes to others, no failure
                                   └───▶ silence: the same, and its deliveries timed out
    share    heartbeats, with fetches and acknowledgements in a share session

Members and their session time-outs are in the group machine (`groups/share.py`); their leases are
in the queue ledgers.  When a member is gone, this module releases its leases.  After a crash
between the two, the visibility time-out releases them.

A closing share consumer sends its last acknowledgements and its leave at the same time, on two
connections.  So a leave ends the membership only: the share session and the leases stay until the
session's final request, the end of its connection, or the end of the visibility time-out, whichever
comes first.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import structlog

from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.broker.queues.service import Queues
from goqueue.broker.services import BrokerServices
from goqueue.broker.shares.sessions import ShareSessions
from goqueue.groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LostMember,
    ShareHeartbeatRequest,
    ShareHeartbeatResponse,
    ShareMember,
)
from goqueue.groups.errors import GroupError, IllegalGeneration, UnknownMember
from goqueue.model.errors import TopicNotFound
from goqueue.model.ids import GroupId, TopicName
from goqueue.model.names import is_internal
from goqueue.queue import DeliveryBatch, QueueSettings

# As Kafka has it, a share group begins at the end of its topics unless it is told otherwise
# beforehand, and every delivery counts, however it ended.
SHARE_DEFAULTS: Final = QueueSettings(start="latest", max_deliveries=5)

_log = structlog.get_logger("goqueue.queues")


class JoinAsWorker(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    topics: tuple[TopicName, ...]
    member_id: str = ""  # of a member that rejoins; empty: a new one
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int | None = None
    starts_at_end: bool = False  # when the group is new


class QueueMembers:
    def __init__(self, services: BrokerServices, queues: Queues) -> None:
        self._services = services
        self._groups = services.groups
        self._queues = queues
        self.sessions = ShareSessions()
        self._groups.on_members_lost = self._release_lost

    # --- asking -----------------------------------------------------------------------------------

    def members(self, group_id: GroupId) -> Mapping[str, ShareMember]:
        group = self._groups.share_group(group_id)
        return {} if group is None else group.members

    def is_worker(self, group_id: GroupId, member_id: str) -> bool:
        member = self.members(group_id).get(member_id)
        return member is not None and member.is_worker

    def topics_of(self, member: ShareMember) -> list[TopicName]:
        """Those that are there."""
        return [name for name in member.subscribed_names if self._services.has_topic(name)]

    def deliveries_max(self, group_id: GroupId) -> int:
        """How often share consumers get a record; Kafka's default if the group has no limit."""
        return self._queues.settings(group_id).max_deliveries or SHARE_DEFAULTS.max_deliveries

    # --- share consumers --------------------------------------------------------------------------

    async def share_heartbeat(self, request: ShareHeartbeatRequest) -> ShareHeartbeatResponse:
        """Join, stay or leave."""
        group_id, names = request.group_id, request.subscribed_names
        if names is not None:
            request = msgspec.structs.replace(request, subscribed_names=tuple(sorted(set(names))))
        if request.member_epoch == JOIN_EPOCH and names is not None:
            await self._groups.refuse_members(group_id)
            there = [n for n in names if not is_internal(n) and self._services.has_topic(n)]
            # What is published from now on is for the group.
            await self._queues.begin(group_id, there, SHARE_DEFAULTS)
        response = await self._groups.share_heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH:
            self._queues.dispatchers.forget_consumer(group_id, request.member_id)
            if not self.sessions.is_open(group_id, request.member_id):
                await self.release(group_id, request.member_id)
        return response

    async def release(self, group_id: GroupId, member_id: str) -> None:
        """What the share consumer holds comes back, and no failure is counted."""
        if group_id in self._queues.groups or self._services.others is not None:
            limit = self.deliveries_max(group_id)
            await self._queues.remove_consumer(
                group_id, member_id, failed=False, deliveries_max=limit
            )

    def disconnect(self, connection: str) -> None:
        """Its sessions are over: others get what those members hold, and no failure is counted."""
        for group_id, member_id in self.sessions.close_all(connection):
            limit = self.deliveries_max(group_id)
            self._queues.release_consumer(group_id, member_id, failed=False, deliveries_max=limit)

    # --- workers over HTTP ------------------------------------------------------------------------

    async def join(self, request: JoinAsWorker) -> ShareMember:
        """A new member, or with `member_id` one that starts over; it keeps what it holds."""
        async with self._groups.barrier_of(request.group_id):
            return await self._join(request)

    async def _join(self, request: JoinAsWorker) -> ShareMember:
        group_id, topics = request.group_id, tuple(dict.fromkeys(request.topics))
        for topic in topics:
            self._services.topic(topic)
        await self._groups.refuse_members(group_id)
        start = QueueSettings(start="latest" if request.starts_at_end else "earliest")
        await self._queues.begin(group_id, topics, start)
        member_id = request.member_id or self._groups.new_member_id(request.client_id)
        await self._groups.share_heartbeat(
            ShareHeartbeatRequest(
                group_id=group_id,
                member_id=member_id,
                member_epoch=JOIN_EPOCH,
                client_id=request.client_id,
                client_host=request.client_host,
                subscribed_names=topics,
                session_timeout_ms=self._session_timeout_ms(request),
            )
        )
        return self._member(group_id, member_id)

    def _session_timeout_ms(self, request: JoinAsWorker) -> int:
        if request.session_timeout_ms is not None:
            return request.session_timeout_ms
        given = self._queues.settings(request.group_id).session_timeout_ms
        return given or self._services.config.groups.session_timeout_ms

    async def leave(self, group_id: GroupId, member_id: str) -> None:
        """What it holds goes to others at once, and counts as no failure."""
        async with self._groups.barrier_of(group_id):
            self._member(group_id, member_id)
        await self._groups.share_heartbeat(
            ShareHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=LEAVE_EPOCH)
        )
        await self._queues.remove_consumer(group_id, member_id, failed=False)

    async def heartbeat(
        self, group_id: GroupId, member_id: str, generation: int | None = None
    ) -> ShareMember:
        async with self._groups.barrier_of(group_id):
            member = self._member(group_id, member_id, generation)
            self._groups.keep_share_session(group_id, member_id)
            return member

    async def assignment(self, group_id: GroupId, member_id: str) -> ShareMember:
        """The member; this is no heartbeat."""
        async with self._groups.barrier_of(group_id):
            return self._member(group_id, member_id)

    async def poll(
        self, request: ReceiveRequest, wait_ms: int, generation: int | None = None
    ) -> list[DeliveryBatch]:
        """Messages of the member's topics, waiting for the first; None: no generation is checked.

        It is a sign of life from its start to its end.
        """
        try:
            return await self._poll(request, wait_ms, generation)
        except GroupError:  # of a membership that may not be committed, or not be ended
            await self._groups.host_of(request.group_id).wait_settled()
            raise

    async def _poll(
        self, request: ReceiveRequest, wait_ms: int, generation: int | None
    ) -> list[DeliveryBatch]:
        group_id, member_id = request.group_id, request.consumer
        member = self._member(group_id, member_id, generation)
        request = msgspec.structs.replace(request, topics=self.topics_of(member))
        with self._groups.share_poll(group_id, member_id):
            try:
                deliveries = await self._queues.receiver.receive(request, wait_ms)
            except TopicNotFound:  # deleted meanwhile: the next poll does without it
                return []
        if deliveries and self.members(group_id).get(member_id) is not member:
            await self._queues.receiver.give_back(deliveries)
            self._member(group_id, member_id, member.epoch)  # raises what it is now
        return deliveries

    def _member(
        self, group_id: GroupId, member_id: str, generation: int | None = None
    ) -> ShareMember:
        member = self.members(group_id).get(member_id)
        if member is None or not member.is_worker:
            raise UnknownMember(f"no member {member_id!r} in group {group_id!r}: join again")
        if generation not in (None, member.epoch):
            raise IllegalGeneration(
                f"generation {generation} of member {member_id!r}, which joined again as"
                f" {member.epoch} since"
            )
        return member

    # --- silence ----------------------------------------------------------------------------------

    def _release_lost(self, lost: Iterable[LostMember]) -> None:
        """Their sessions ended: others get what they hold, and those deliveries timed out."""
        for each in lost:
            _log.info("member timed out", group=each.group_id, member=each.member_id)
            self.sessions.close(each.group_id, each.member_id)
            self._queues.release_consumer(each.group_id, each.member_id, failed=True)
