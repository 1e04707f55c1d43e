"""Members of a group that works its topics off as queues; `groups.py` sends them here."""

from collections.abc import Callable
from typing import Any

from litestar import Request

from goqueue.api.groups import JoinGroup, MembershipBody
from goqueue.api.messages import ReadEncoding
from goqueue.api.queues import QueuePollBody
from goqueue.broker import Broker
from goqueue.broker.queues.members import JoinAsWorker, QueuePoll
from goqueue.groups import ShareMember
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import GroupId
from goqueue.model.names import topic_name
from goqueue.model.topic_partition import TopicPartition
from goqueue.server.http.asgi.long_polls import LongPolls
from goqueue.server.http.routes.queue_bodies import queue_messages
from goqueue.server.http.routes.queues import hand_out


async def join(
    request: Request[Any, Any, Any], broker: Broker, group_id: GroupId, data: JoinGroup
) -> MembershipBody:
    _refuse_stream_fields(data)
    member = await broker.queue_members.join(
        JoinAsWorker(
            group_id=group_id,
            topics=tuple(topic_name(each) for each in data.topics),
            member_id=data.member_id,
            client_id=data.client_id,
            client_host="" if request.client is None else request.client.host,
            session_timeout_ms=data.session_timeout_ms,
            starts_at_end=data.offset_reset == "latest",
        )
    )
    return MembershipBody(**membership(broker, member))


def _refuse_stream_fields(data: JoinGroup) -> None:
    for name in ("topics_regex", "instance_id", "assignor", "rebalance_timeout_ms"):
        if getattr(data, name) is not None:
            raise InvalidRequest(f"{name}: only with mode stream, where partitions are divided")


async def leave(broker: Broker, group_id: GroupId, member_id: str) -> None:
    await broker.queue_members.leave(group_id, member_id)


def heartbeat(
    broker: Broker, group_id: GroupId, member_id: str, generation: int | None
) -> MembershipBody:
    member = broker.queue_members.heartbeat(group_id, member_id, generation)
    return MembershipBody(**membership(broker, member))


def assignment(broker: Broker, group_id: GroupId, member_id: str) -> MembershipBody:
    member = broker.queue_members.members(group_id)[member_id]
    return MembershipBody(**membership(broker, member))


async def poll(
    request: Request[Any, Any, Any],
    broker: Broker,
    polls: LongPolls,
    wanted: QueuePoll,
    wait_ms: int,
    encoding: ReadEncoding,
    receiving: Callable[[], Any],
) -> QueuePollBody:
    members = broker.queue_members
    with receiving():
        found = await hand_out(
            broker.queues,
            polls,
            request.receive,
            wait_ms,
            lambda patience_ms: members.poll(wanted, patience_ms),
        )
    member = members.heartbeat(wanted.group_id, wanted.member_id)
    return QueuePollBody(**membership(broker, member), messages=queue_messages(found, encoding))


def membership(broker: Broker, member: ShareMember) -> dict[str, Any]:
    assert member.session_timeout_ms is not None, "the member polls over HTTP"
    return {
        "member_id": member.member_id,
        "mode": "queue",
        "generation": member.epoch,
        "state": "Stable",
        "partitions": partitions(broker, member),
        "revoked": [],
        "rebalance_required": False,
        "session_timeout_ms": member.session_timeout_ms,
        "heartbeat_interval_ms": min(
            broker.config.groups.heartbeat_interval_ms, member.session_timeout_ms // 3
        ),
    }


def partitions(broker: Broker, member: ShareMember) -> list[TopicPartition]:
    """All of its topics, which it shares with every other member."""
    return [
        TopicPartition(name, index)
        for name in broker.queue_members.topics_of(member)
        for index in range(broker.topic(name).partitions)
    ]
