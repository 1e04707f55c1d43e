"""Consumer groups: one deterministic state machine for every protocol.

`machine` has the verbs; start there.  Then, by protocol:

    classic: the state              consumer: the state
    classic_join, classic_sync      consumer_heartbeat: the one request
    classic_phases: what follows    targets, assignors, balance: which member should own what
                                    reconcile: a member's next step to its target
                                    member_assignment: where a member is on its way there
    conversion, classic_in_consumer: both protocols in one group     deadlines: timers that are due
    share, share_heartbeat: members of queue groups
    offsets, commits: positions     descriptions, settings: for administrators

`pending_change`, `context`, `parked_requests` and `timers` are what all protocols share; `records`
is what is on disk.
"""

from goqueue.groups.classic_join import JoinRequest
from goqueue.groups.classic_sync import MemberIdentity, SyncRequest
from goqueue.groups.commits import (
    CommitRequest,
    FetchedOffsets,
    FetchRequest,
    OffsetToCommit,
    PartitionResult,
)
from goqueue.groups.config import AssignmentPace, GroupsConfig
from goqueue.groups.consumer import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from goqueue.groups.consumer_heartbeat import HeartbeatRequest
from goqueue.groups.descriptions import GroupDescription, GroupListing, MemberDescription
from goqueue.groups.machine import GroupMachine
from goqueue.groups.member_assignment import Changes, MemberAssignment
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.records import (
    ClassicPhaseChanged,
    ClassicState,
    CommittedOffset,
    EpochBumped,
    GroupRecord,
    MemberState,
    OffsetsCommitted,
    PendingOffsetsEnded,
    Protocol,
    ReaderTraits,
    ShareMember,
)
from goqueue.groups.replies import (
    Assignment,
    GroupDecision,
    HeartbeatResponse,
    Joined,
    JoinedMember,
    Left,
    LostMember,
    Outcome,
    Parked,
    ShareHeartbeatResponse,
    Synced,
    Token,
    Wakeup,
)
from goqueue.groups.settings import UNSET, GroupSettings
from goqueue.groups.share import ShareGroup
from goqueue.groups.share_heartbeat import ShareHeartbeatRequest
from goqueue.groups.statistics import (
    DURATION_MS_BOUNDS,
    Durations,
    RebalanceStatistics,
    Statistics,
    add_up,
)
from goqueue.groups.topics import (
    MaySee,
    TopicFacts,
    Topics,
    TopicsView,
    Viewer,
    compile_regex,
    in_namespace,
    name_filter,
)

__all__ = [
    "DURATION_MS_BOUNDS",
    "JOIN_EPOCH",
    "LEAVE_EPOCH",
    "NO_PARTITIONS",
    "STATIC_LEAVE_EPOCH",
    "UNSET",
    "Assignment",
    "AssignmentPace",
    "Changes",
    "ClassicPhaseChanged",
    "ClassicState",
    "CommitRequest",
    "CommittedOffset",
    "Durations",
    "EpochBumped",
    "FetchRequest",
    "FetchedOffsets",
    "GroupDecision",
    "GroupDescription",
    "GroupListing",
    "GroupMachine",
    "GroupRecord",
    "GroupSettings",
    "GroupsConfig",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "JoinRequest",
    "Joined",
    "JoinedMember",
    "Left",
    "LostMember",
    "MaySee",
    "MemberAssignment",
    "MemberDescription",
    "MemberIdentity",
    "MemberState",
    "OffsetToCommit",
    "OffsetsCommitted",
    "Outcome",
    "Parked",
    "PartitionResult",
    "PartitionSet",
    "PendingOffsetsEnded",
    "Protocol",
    "ReaderTraits",
    "RebalanceStatistics",
    "ShareGroup",
    "ShareHeartbeatRequest",
    "ShareHeartbeatResponse",
    "ShareMember",
    "Statistics",
    "SyncRequest",
    "Synced",
    "Token",
    "TopicFacts",
    "Topics",
    "TopicsView",
    "Viewer",
    "Wakeup",
    "add_up",
    "compile_regex",
    "in_namespace",
    "name_filter",
]
