"""Consumer groups: one deterministic state machine for every protocol.

`machine` has the verbs; start there.  Then, by protocol:

    classic: the state              consumer: the state
    classic_join, classic_sync      consumer_beat: the one request
    classic_phases: what follows    targets, assignors, balance: who should have what
                                    reconcile: how a member gets there
                                    standings: members that the broker walks there
    conversion, mixed: both protocols in one group
    offsets, commits: positions     descriptions, settings: for administrators

`draft`, `desk`, `lobby` and `timers` are what they share; `records` is what is on disk.
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
from goqueue.groups.consumer_heartbeat import BeatRequest
from goqueue.groups.descriptions import GroupDescription, GroupListing, MemberDescription
from goqueue.groups.machine import GroupMachine
from goqueue.groups.member_assignment import Changes, Standing
from goqueue.groups.partition_sets import NO_PARTITIONS, PartitionSet
from goqueue.groups.records import CommittedOffset, GroupRecord, Protocol, ReaderTraits
from goqueue.groups.replies import (
    Beat,
    GroupDecision,
    Joined,
    JoinedMember,
    Left,
    Outcome,
    Parked,
    Synced,
    Token,
    Wakeup,
)
from goqueue.groups.settings import UNSET, GroupSettings
from goqueue.groups.statistics import RebalanceStatistics, Statistics
from goqueue.groups.topics import TopicFacts, Topics, TopicsView, compile_regex

__all__ = [
    "NO_PARTITIONS",
    "UNSET",
    "AssignmentPace",
    "Beat",
    "BeatRequest",
    "Changes",
    "CommitRequest",
    "CommittedOffset",
    "FetchRequest",
    "FetchedOffsets",
    "GroupDecision",
    "GroupDescription",
    "GroupListing",
    "GroupMachine",
    "GroupRecord",
    "GroupSettings",
    "GroupsConfig",
    "JoinRequest",
    "Joined",
    "JoinedMember",
    "Left",
    "MemberDescription",
    "MemberIdentity",
    "OffsetToCommit",
    "Outcome",
    "Parked",
    "PartitionResult",
    "PartitionSet",
    "Protocol",
    "ReaderTraits",
    "RebalanceStatistics",
    "Standing",
    "Statistics",
    "SyncRequest",
    "Synced",
    "Token",
    "TopicFacts",
    "Topics",
    "TopicsView",
    "Wakeup",
    "compile_regex",
]
