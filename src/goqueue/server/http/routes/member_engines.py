"""The two ways in which members share a group's messages, behind the same operations.

`StreamEngine` assigns partitions to members; `QueueEngine` delivers single messages to them.
"""

from functools import partial
from typing import Any, TypeAlias

import msgspec
from litestar import Request

from goqueue.api.groups import GroupMessage, JoinGroup, MembershipBody, PollBody
from goqueue.api.messages import ReadEncoding
from goqueue.api.queues import QueuePollBody
from goqueue.broker import Broker
from goqueue.broker.groups.http_members import GroupMembers
from goqueue.broker.groups.http_requests import JoinAsReader, Membership, Polled, PollRequest
from goqueue.broker.queues.members import JoinAsWorker
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.groups import ShareMember, Viewer
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import GroupId
from goqueue.model.names import topic_name
from goqueue.model.topic_partition import TopicPartition
from goqueue.server.http.asgi.long_polls import LongPolls
from goqueue.server.http.routes.message_bodies import make_body
from goqueue.server.http.routes.queue_bodies import queue_messages
from goqueue.server.http.routes.queues import deliver
from goqueue.server.metrics import Metrics

AnyRequest = Request[Any, Any, Any]


class PollCall(msgspec.Struct, frozen=True, kw_only=True):
    group_id: GroupId
    member_id: str
    generation: int | None
    seen: int | None
    limit: int
    max_bytes: int
    visibility_ms: int | None
    wait_ms: int
    encoding: ReadEncoding


class StreamEngine:
    def __init__(self, broker: Broker, members: GroupMembers, viewer: Viewer | None = None) -> None:
        """`viewer` is who joins by a regular expression; None: it may see everything."""
        self._broker = broker
        self._members = members
        self._viewer = viewer

    async def join(self, group_id: GroupId, host: str, data: JoinGroup) -> MembershipBody:
        if not data.topics and not data.topics_regex:
            raise InvalidRequest("topics: name at least one, or give topics_regex")
        joined = await self._members.join(
            JoinAsReader(
                group_id=group_id,
                topics=tuple(topic_name(each) for each in data.topics),
                topics_regex=data.topics_regex,
                viewer=self._viewer,
                member_id=data.member_id,
                instance_id=data.instance_id,
                client_id=data.client_id,
                client_host=host,
                assignor=data.assignor,
                session_timeout_ms=data.session_timeout_ms,
                rebalance_timeout_ms=data.rebalance_timeout_ms,
                auto_commit_interval_ms=data.auto_commit_interval_ms if data.auto_commit else None,
                starts_at_end=data.offset_reset == "latest",
            )
        )
        return MembershipBody(**self.fields(joined))

    async def leave(self, group_id: GroupId, member_id: str, *, is_done: bool) -> None:
        await self._members.leave(group_id, member_id, is_done=is_done)

    async def heartbeat(self, group_id: GroupId, member_id: str, generation: int) -> MembershipBody:
        standing = await self._members.heartbeat(group_id, member_id, generation)
        return MembershipBody(**self.fields(standing))

    async def assignment(self, group_id: GroupId, member_id: str) -> MembershipBody:
        return MembershipBody(**self.fields(await self._members.assignment(group_id, member_id)))

    async def poll(
        self, request: AnyRequest, polls: LongPolls, metrics: Metrics, call: PollCall
    ) -> PollBody:
        if call.generation is None:
            await self.assignment(call.group_id, call.member_id)  # or there is no such member
            raise InvalidRequest("generation: give that of the last answer")
        wanted = PollRequest(
            group_id=call.group_id,
            member_id=call.member_id,
            generation=call.generation,
            seen=call.seen,
            limit=call.limit,
            bytes_max=call.max_bytes,
        )
        polled = await polls.run(
            request, call.wait_ms, lambda poll: self._members.poll(wanted, poll)
        )
        return self._poll_body(polled, call.encoding)

    def _poll_body(self, polled: Polled, encoding: ReadEncoding) -> PollBody:
        next_offsets: dict[str, dict[str, int]] = {}
        messages: list[GroupMessage] = []
        for each in polled.deliveries:
            next_offsets.setdefault(each.topic, {})[str(each.partition)] = each.next_offset
            make = partial(GroupMessage, each.topic)
            messages += [
                make_body(make, record, each.partition, encoding) for record in each.records
            ]
        return PollBody(
            **self.fields(polled.membership),
            messages=messages,
            next_offsets=next_offsets,
            poll_id=polled.poll_id,
            problems=polled.problems,
        )

    def fields(self, standing: Membership) -> dict[str, Any]:
        """The fields that all answers to members share."""
        return {
            "member_id": standing.member_id,
            "mode": "stream",
            "generation": standing.generation,
            "state": standing.state.capitalize(),
            "partitions": standing.partitions,
            "revoked": standing.revoked,
            "rebalance_required": bool(standing.revoked),
            **_intervals(self._broker, standing.session_timeout_ms),
        }


class QueueEngine:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._members = broker.queue_members

    async def join(self, group_id: GroupId, host: str, data: JoinGroup) -> MembershipBody:
        if not data.topics:
            raise InvalidRequest("topics: name at least one")
        for name in ("topics_regex", "instance_id", "assignor", "rebalance_timeout_ms"):
            if getattr(data, name) is not None:
                raise InvalidRequest(f"{name}: only with mode stream, where partitions are divided")
        member = await self._members.join(
            JoinAsWorker(
                group_id=group_id,
                topics=tuple(topic_name(each) for each in data.topics),
                member_id=data.member_id,
                client_id=data.client_id,
                client_host=host,
                session_timeout_ms=data.session_timeout_ms,
                starts_at_end=data.offset_reset == "latest",
            )
        )
        return MembershipBody(**self._fields(member))

    async def leave(self, group_id: GroupId, member_id: str, *, is_done: bool) -> None:
        await self._members.leave(group_id, member_id)

    async def heartbeat(self, group_id: GroupId, member_id: str, generation: int) -> MembershipBody:
        member = await self._members.heartbeat(group_id, member_id, generation)
        return MembershipBody(**self._fields(member))

    async def assignment(self, group_id: GroupId, member_id: str) -> MembershipBody:
        return MembershipBody(**self._fields(await self._members.assignment(group_id, member_id)))

    async def poll(
        self, request: AnyRequest, polls: LongPolls, metrics: Metrics, call: PollCall
    ) -> QueuePollBody:
        wanted = ReceiveRequest(
            (),  # those that it joined for
            call.group_id,
            call.member_id,
            max_messages=call.limit,
            max_bytes=call.max_bytes,
            visibility_ms=call.visibility_ms,
        )
        with metrics.queues.receiving():
            found = await deliver(
                self._broker.queues.receiver,
                polls,
                request.receive,
                call.wait_ms,
                lambda wait_ms: self._members.poll(wanted, wait_ms, call.generation),
            )
        member = await self._members.heartbeat(call.group_id, call.member_id)
        messages = queue_messages(found, call.encoding)
        return QueuePollBody(**self._fields(member), messages=messages)

    def _fields(self, member: ShareMember) -> dict[str, Any]:
        """All partitions of its topics are the member's, and every other member's."""
        assert member.session_timeout_ms is not None, "the member polls over HTTP"
        return {
            "member_id": member.member_id,
            "mode": "queue",
            "generation": member.epoch,
            "state": "Stable",
            "partitions": [
                TopicPartition(name, index)
                for name in self._members.topics_of(member)
                for index in range(self._broker.topic(name).partitions)
            ],
            "revoked": [],
            "rebalance_required": False,
            **_intervals(self._broker, member.session_timeout_ms),
        }


Engine: TypeAlias = StreamEngine | QueueEngine


def _intervals(broker: Broker, session_timeout_ms: int) -> dict[str, int]:
    heartbeat_ms = min(broker.config.groups.heartbeat_interval_ms, session_timeout_ms // 3)
    return {"session_timeout_ms": session_timeout_ms, "heartbeat_interval_ms": heartbeat_ms}
