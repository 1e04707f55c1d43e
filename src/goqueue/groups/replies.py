"""Replies, and how a request is made to wait.

Every verb returns `Decision(records, Outcome(reply, wakeups))`.  Two things are data here that
elsewhere would be futures:

* **Parking.**  JoinGroup and SyncGroup end when the group's phase ends.  Their reply is then
  `Parked(token)`, and a later decision (another member's request, or `on_deadline`) carries
  `Wakeup(token, reply)`.  Each token is woken exactly once, unless the shell `abandon`s it.
* **Refusals in a wake-up** are values of `GroupError`; a refusal of the call at hand is raised.

The shell releases the reply and the wake-ups together, when the decision's records are committed.
"""

from typing import Generic, NewType, TypeVar

import msgspec

from goqueue.groups.errors import GroupError
from goqueue.groups.partition_sets import PartitionSet
from goqueue.groups.records import GroupRecord
from goqueue.model.ids import GroupId, TopicId
from goqueue.model.machine import Decision

Token = NewType("Token", int)
ReplyT = TypeVar("ReplyT")


class Parked(msgspec.Struct, frozen=True):
    """Answer later: a wake-up with this token will come."""

    token: Token


class JoinedMember(msgspec.Struct, frozen=True):
    """A member as the leader sees it when it divides the partitions."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(msgspec.Struct, frozen=True):
    """The answer to JoinGroup; only the leader is told of the others."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class Synced(msgspec.Struct, frozen=True):
    """The answer to SyncGroup: what the leader gave this member."""

    protocol_type: str
    protocol: str
    assignment: bytes


class Left(msgspec.Struct, frozen=True):
    """One line of the answer to LeaveGroup."""

    member_id: str
    instance_id: str | None
    error: GroupError | None = None


class HeartbeatResponse(msgspec.Struct, frozen=True):
    """The answer to ConsumerGroupHeartbeat; `assigned` is None when it did not change."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: PartitionSet | None = None


Assignment = dict[TopicId, int]  # topic to the number of its partitions, all of which are assigned


class ShareHeartbeatResponse(msgspec.Struct, frozen=True):
    """The answer to ShareGroupHeartbeat; `assigned` is None when it did not change."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assigned: Assignment | None = None


class LostMember(msgspec.Struct, frozen=True):
    """A member of a share group whose session has ended: what it holds is for others."""

    group_id: GroupId
    member_id: str


WakeReply = Joined | Synced | GroupError


class Wakeup(msgspec.Struct, frozen=True):
    token: Token
    reply: WakeReply


class Outcome(msgspec.Struct, Generic[ReplyT], frozen=True):
    """The reply to a request, and those of the parked requests that it wakes."""

    reply: ReplyT
    wakeups: tuple[Wakeup, ...] = ()
    lost: tuple[LostMember, ...] = ()


GroupDecision = Decision[GroupRecord, Outcome[ReplyT]]
