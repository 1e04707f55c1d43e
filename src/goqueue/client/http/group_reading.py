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

from goqueue.api.groups import MembershipBody, PollBody
from goqueue.api.queues import QueuePollBody
from goqueue.client.errors import ClientError, Refused
from goqueue.client.http.calls import groups
from goqueue.client.http.calls.call import Call
from goqueue.client.http.messages import Received, from_wire
from goqueue.client.http.queue_results import Delivery, deliveries
from goqueue.model.topic_partition import TopicPartition

JOIN_AGAIN: Final = frozenset({"unknown_member_id", "illegal_generation", "fenced_instance_id"})


MessageT = TypeVar("MessageT", bound=Received)


class MemberReading(Generic[MessageT]):
    """What `GroupReading` and `QueueReading` have in common."""

    _answer: type[Any]  # to a poll

    def __init__(self, group: str, topics: Sequence[str], **settings: Any) -> None:
        """`settings` are those of a join: `auto_commit`, `offset_reset`, `client_id`, …"""
        self.group = group
        self.partitions: list[TopicPartition] = []
        self.generation = 0
        self._topics = topics
        self._settings: Mapping[str, Any] = settings
        self.member_id = f"{settings.get('client_id') or 'member'}-{uuid.uuid4().hex}"
        # No answer yet; a number, so that a first poll may be repeated too.
        self._seen: int | None = 0

    def join_call(self) -> Call[MembershipBody]:
        return groups.join_group(self.group, self.member_id, self._topics, self._settings)

    def note_joined(self, membership: MembershipBody) -> None:
        self.member_id = membership.member_id
        self.stands(membership)
        if self._seen is not None:
            self._seen = 0

    def stands(self, membership: MembershipBody) -> None:
        self.generation = membership.generation
        self.partitions = membership.partitions

    def call(self, *, limit: int | None = None, wait_ms: int = 0) -> Call[Any]:
        return groups.poll_group(
            self.group,
            self.member_id,
            self.generation,
            result=self._answer,
            seen=self._seen,
            limit=limit,
            wait_ms=wait_ms,
        )

    def take(self, answer: Any) -> list[MessageT]:
        raise NotImplementedError

    def heartbeat_call(self) -> Call[MembershipBody]:
        return groups.heartbeat(self.group, self.member_id, self.generation)

    def leave_call(self, *, commit: bool) -> Call[None]:
        return groups.leave_group(self.group, self.member_id, commit=commit)

    def must_join_again(self, error: ClientError) -> bool:
        return isinstance(error, Refused) and error.code in JOIN_AGAIN


class GroupReading(MemberReading[Received]):
    """Reads its share of the topics' partitions."""

    _answer: type[Any] = PollBody

    def take(self, answer: PollBody) -> list[Received]:
        self.stands(answer)
        self._seen = answer.poll_id
        return [from_wire(message, message.topic) for message in answer.messages]


class QueueReading(MemberReading[Delivery]):
    """A member of a queue group: it receives single messages, and acks each of them.

    If it sends nothing for longer than its session, its messages are redelivered.
    """

    _answer: type[Any] = QueuePollBody

    def __init__(self, group: str, topics: Sequence[str], **settings: Any) -> None:
        super().__init__(group, topics, mode="queue", **settings)
        self._seen = (
            None  # messages of a lost answer are redelivered after their visibility time-out
        )

    def take(self, answer: QueuePollBody) -> list[Delivery]:
        self.stands(answer)
        return deliveries(answer.messages)
