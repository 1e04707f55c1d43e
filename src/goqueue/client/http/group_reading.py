"""A member of a consumer group, without I/O: what to ask next, and what an answer means.

    reading.call(…) ── send it ── reading.take(answer) ──▶ messages
          ▲                                │
          └──── they are processed ◀───────┘        asking for more says so

A member that the server does not know any more (it was silent for too long) joins again.

A member of a group in queue mode (`QueueReading`) gets deliveries, to be acked by itself.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from goqueue.client.errors import ClientError, Refused
from goqueue.client.http.calls import groups
from goqueue.client.http.calls.topics import Call
from goqueue.client.http.group_results import Membership, Place, WirePoll
from goqueue.client.http.messages import Received, from_wire
from goqueue.client.http.queue_results import Delivery, WireDelivery, delivery
from goqueue.client.http.results import Anything

JOIN_AGAIN: Final = frozenset({"unknown_member_id", "illegal_generation", "fenced_instance_id"})


MessageT = TypeVar("MessageT", bound=Received)


class MemberReading(Generic[MessageT]):
    """What `GroupReading` and `QueueReading` have in common."""

    def __init__(self, group: str, topics: Sequence[str], **settings: Any) -> None:
        """`settings` are those of a join: `auto_commit`, `offset_reset`, `client_id`, …"""
        self.group = group
        self.partitions: list[Place] = []
        self.generation = 0
        self._topics = topics
        self._settings: Mapping[str, Any] = settings
        self.member_id = f"{settings.get('client_id') or 'member'}-{uuid.uuid4().hex}"
        # No answer yet; a number, so that a first poll may be repeated too.
        self._seen: int | None = 0

    def join_call(self) -> Call[Membership]:
        return groups.join_group(self.group, self.member_id, self._topics, self._settings)

    def joined(self, membership: Membership) -> None:
        self.member_id = membership.member_id
        self.stands(membership)
        if self._seen is not None:
            self._seen = 0

    def stands(self, membership: Membership) -> None:
        self.generation = membership.generation
        self.partitions = membership.partitions

    def call(self, *, limit: int | None = None, wait_ms: int = 0) -> Call[WirePoll]:
        return groups.poll_group(
            self.group,
            self.member_id,
            self.generation,
            seen=self._seen,
            limit=limit,
            wait_ms=wait_ms,
        )

    def take(self, answer: WirePoll) -> list[MessageT]:
        self.stands(answer)
        if self._seen is not None:
            self._seen = answer.poll_id
        return [self._message(message) for message in answer.messages]

    def _message(self, wire: WireDelivery) -> MessageT:
        raise NotImplementedError

    def heartbeat_call(self) -> Call[Membership]:
        return groups.heartbeat(self.group, self.member_id, self.generation)

    def leave_call(self, *, commit: bool) -> Call[Anything]:
        return groups.leave_group(self.group, self.member_id, commit=commit)

    def must_join_again(self, error: ClientError) -> bool:
        return isinstance(error, Refused) and error.code in JOIN_AGAIN


class GroupReading(MemberReading[Received]):
    """Reads its share of the topics' partitions."""

    def _message(self, wire: WireDelivery) -> Received:
        return from_wire(wire, wire.topic, 0)


class QueueReading(MemberReading[Delivery]):
    """Works messages off, which it shares with the group's other members; ack each.

    When it dies, or is silent for longer than its session, others get what it holds.
    """

    def __init__(self, group: str, topics: Sequence[str], **settings: Any) -> None:
        super().__init__(group, topics, mode="queue", **settings)
        self._seen = None  # an answer that is lost comes again when its messages' time is over

    def _message(self, wire: WireDelivery) -> Delivery:
        return delivery(wire)
