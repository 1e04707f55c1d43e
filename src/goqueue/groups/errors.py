"""What a member of a group can be told, in the words of Kafka's protocol.

A member reacts to each in its own way, so they are many: `Fenced…` and `UnknownMember` mean "join
again", `RebalanceInProgress` means "join again with your id", `StaleMemberEpoch` means "heartbeat,
then retry the commit".
"""

from typing import ClassVar

from goqueue.model.errors import GoQueueError


class GroupError(GoQueueError):
    """A group refuses a request."""

    code: ClassVar[str] = "group_error"


class InvalidGroupRequest(GroupError):
    """The request contradicts itself: a join that claims partitions, a leave without a name."""

    code = "invalid_group_request"


class InvalidGroupId(GroupError):
    code = "invalid_group_id"


class GroupNotFound(GroupError):
    code = "group_id_not_found"


class GroupNotEmpty(GroupError):
    """The group still has members; it cannot be deleted from under them."""

    code = "non_empty_group"


class GroupSubscribedToTopic(GroupError):
    """A member reads the topic, so its offsets cannot be deleted."""

    code = "group_subscribed_to_topic"


class GroupMaxSizeReached(GroupError):
    code = "group_max_size_reached"


class UnknownMember(GroupError):
    """No such member: it never joined, left, or was silent for longer than its session."""

    code = "unknown_member_id"


class MemberIdRequired(GroupError):
    """Join again with the id given here; so a join whose answer is lost leaves no ghost."""

    code = "member_id_required"

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id!r}")
        self.member_id = member_id


class IllegalGeneration(GroupError):
    code = "illegal_generation"


class RebalanceInProgress(GroupError):
    """The group is rebalancing: join again."""

    code = "rebalance_in_progress"
    retriable = True


class InconsistentGroupProtocol(GroupError):
    """No assignment protocol is known to all members, or the protocol type is another one."""

    code = "inconsistent_group_protocol"


class GroupModeConflict(GroupError):
    """A group works as a stream or as a queue, as its members do: not both at a time."""

    code = "group_mode_conflict"


class InvalidSessionTimeout(GroupError):
    code = "invalid_session_timeout"


class FencedInstance(GroupError):
    """Another process has joined under the same instance id since."""

    code = "fenced_instance_id"


class UnreleasedInstance(GroupError):
    """The instance id is in use by a member that has neither left nor expired."""

    code = "unreleased_instance_id"


class FencedMemberEpoch(GroupError):
    """The member's epoch is not the coordinator's: give up all partitions and join again."""

    code = "fenced_member_epoch"


class StaleMemberEpoch(GroupError):
    """The epoch of this commit or fetch is old: heartbeat to learn the new one, then retry."""

    code = "stale_member_epoch"
    retriable = True


class UnsupportedAssignor(GroupError):
    code = "unsupported_assignor"


class InvalidRegularExpression(GroupError):
    code = "invalid_regular_expression"


class OffsetMetadataTooLarge(GroupError):
    code = "offset_metadata_too_large"
