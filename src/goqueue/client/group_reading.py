"""A member of a consumer group, without I/O: what to ask next, and what an answer means.

    reading.call(…) ── send it ── reading.take(answer) ──▶ messages
          ▲                                │
          └──── they are processed ◀───────┘        asking for more says so

A member that the server does not know any more (it was silent for too long) joins again.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from goqueue.client import group_calls
from goqueue.client.calls import Call
from goqueue.client.errors import ClientError, Refused
from goqueue.client.group_results import Membership, Place, WirePoll
from goqueue.client.messages import Received, from_wire
from goqueue.client.results import Anything

JOIN_AGAIN: Final = frozenset({"unknown_member_id", "illegal_generation", "fenced_instance_id"})


class GroupReading:
    def __init__(self, group: str, topics: Sequence[str], **settings: Any) -> None:
        """`settings` are those of a join: `auto_commit`, `offset_reset`, `client_id`, …"""
        self.group = group
        self.partitions: list[Place] = []
        self.generation = 0
        self._topics = topics
        self._settings: Mapping[str, Any] = settings
        self.member_id = f"{settings.get('client_id') or 'member'}-{uuid.uuid4().hex}"
        self._seen = 0  # no answer yet; a number, so that a first poll may be repeated too

    def join_call(self) -> Call[Membership]:
        return group_calls.join_group(self.group, self.member_id, self._topics, self._settings)

    def joined(self, membership: Membership) -> None:
        self.member_id = membership.member_id
        self.generation = membership.generation
        self.partitions = membership.partitions
        self._seen = 0

    def call(self, *, limit: int | None = None, wait_ms: int = 0) -> Call[WirePoll]:
        return group_calls.poll_group(
            self.group,
            self.member_id,
            self.generation,
            seen=self._seen,
            limit=limit,
            wait_ms=wait_ms,
        )

    def take(self, answer: WirePoll) -> list[Received]:
        self.generation = answer.generation
        self.partitions = answer.partitions
        self._seen = answer.poll_id
        return [from_wire(message, message.topic, 0) for message in answer.messages]

    def leave_call(self, *, commit: bool) -> Call[Anything]:
        return group_calls.leave_group(self.group, self.member_id, commit=commit)

    def must_join_again(self, error: ClientError) -> bool:
        return isinstance(error, Refused) and error.code in JOIN_AGAIN
