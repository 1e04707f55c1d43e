"""The records of the group log: the only things that change a group.

On disk a record is one version byte and a MessagePack map tagged with its kind.  Fields may be
added with defaults; a changed meaning takes a new tag.  Session deadlines, parked callers and
statistics are not here: a restart may forget them.
"""

import enum
from typing import NamedTuple, TypeAlias

import msgspec

from goqueue.groups.partition_sets import Packed
from goqueue.groups.settings import GroupSettings
from goqueue.groups.topics import TopicFacts, Viewer
from goqueue.model.errors import CorruptData
from goqueue.model.ids import GroupId, Offset, Timestamp, TopicName, TopicPartition

FORMAT_VERSION = 1


class Protocol(msgspec.Struct, frozen=True, array_like=True):
    """An assignment protocol a classic member knows, and what it says of itself in it."""

    name: str
    metadata: bytes


# --- classic groups -----------------------------------------------------------------------------


class ClassicState(enum.StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class ClassicMember(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]  # in order of preference

    def metadata(self, protocol: str) -> bytes:
        """What this member says of itself in `protocol`; empty if it does not know it."""
        return next((known.metadata for known in self.protocols if known.name == protocol), b"")


class ClassicMemberSaved(msgspec.Struct, frozen=True, tag="classic_member_saved"):
    """A member came or changed; the first one makes the group."""

    group_id: GroupId
    member: ClassicMember


class ClassicMemberReplaced(msgspec.Struct, frozen=True, tag="classic_member_replaced"):
    """A static member restarted: the new id takes the old one's place and assignment."""

    group_id: GroupId
    old_member_id: str
    member: ClassicMember


class ClassicMemberRemoved(msgspec.Struct, frozen=True, tag="classic_member_removed"):
    group_id: GroupId
    member_id: str


class ClassicPhaseChanged(msgspec.Struct, frozen=True, tag="classic_phase_changed"):
    group_id: GroupId
    state: ClassicState
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    at: Timestamp


class ClassicAssigned(msgspec.Struct, frozen=True, tag="classic_assigned"):
    """The leader divided the partitions: the group is stable."""

    group_id: GroupId
    assignments: dict[str, bytes]
    at: Timestamp


# --- consumer groups (KIP-848) ------------------------------------------------------------------


class MemberState(enum.StrEnum):
    STABLE = "stable"  # has what the target of its epoch gives it
    REVOKING = "revoking"  # was told to give partitions up and has not said that it did
    WAITING = "waiting"  # lacks partitions that their former owners still hold


class ClassicTraits(msgspec.Struct, frozen=True):
    """What a member of a consumer group has beside, when it speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    version: int = 0  # of the embedded subscription; its assignment is answered in the same


class Subscription(NamedTuple):
    """The topics of a member; most members of a group have the same subscription."""

    names: tuple[TopicName, ...]  # sorted
    regex: str | None
    viewer: Viewer | None = None  # who subscribed by the regular expression


class ReaderTraits(msgspec.Struct, frozen=True):
    """What a member has beside, when the broker reads for it: it polls over HTTP."""

    session_timeout_ms: int
    auto_commit_interval_ms: int | None = None  # None: it commits for itself
    starts_at_end: bool = False  # in partitions where nothing is committed


class ConsumerMember(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    subscribed_names: tuple[TopicName, ...]  # sorted
    subscribed_regex: str | None
    assignor: str | None
    classic: ClassicTraits | None = None
    reader: ReaderTraits | None = None
    # Of the regular expression; unset, which is not written: it matches all topics.
    viewer: Viewer | msgspec.UnsetType = msgspec.UNSET

    @property
    def subscription(self) -> Subscription:
        viewer = self.viewer if isinstance(self.viewer, Viewer) else None
        return Subscription(self.subscribed_names, self.subscribed_regex, viewer)


class ConsumerMemberSaved(msgspec.Struct, frozen=True, tag="consumer_member_saved"):
    """A member came or changed; the first one makes the group."""

    group_id: GroupId
    member: ConsumerMember


class ConsumerMemberRemoved(msgspec.Struct, frozen=True, tag="consumer_member_removed"):
    """A member was removed, with its target and its partitions."""

    group_id: GroupId
    member_id: str


class EpochBumped(msgspec.Struct, frozen=True, tag="epoch_bumped"):
    """Members, subscriptions or topics changed: a new target is due."""

    group_id: GroupId
    epoch: int
    topics: tuple[TopicFacts, ...]
    at: Timestamp


class TargetSet(msgspec.Struct, frozen=True, tag="target_set"):
    """The assignment the group moves towards; only the members whose target changed."""

    group_id: GroupId
    epoch: int
    assignor: str
    targets: dict[str, Packed]


class MemberMoved(msgspec.Struct, frozen=True, tag="member_moved"):
    """The state of one member on the way to its target."""

    group_id: GroupId
    member_id: str
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Packed
    revoking: Packed
    assignment_epochs: dict[int, Packed] = {}  # only in snapshots: a replay finds them by itself


# --- share groups (KIP-932), and workers over HTTP ----------------------------------------------


class ShareMember(msgspec.Struct, frozen=True, kw_only=True):
    member_id: str
    client_id: str
    client_host: str
    rack_id: str | None = None
    subscribed_names: tuple[TopicName, ...]
    epoch: int  # of the group when it joined: whoever says an older one is its former self
    session_timeout_ms: int | None = None  # of a worker over HTTP; None: the group's

    @property
    def is_worker(self) -> bool:
        return self.session_timeout_ms is not None


class ShareMemberSaved(msgspec.Struct, frozen=True, tag="share_member_saved"):
    """A member came or changed; the first one makes the group."""

    group_id: GroupId
    member: ShareMember


class ShareMemberRemoved(msgspec.Struct, frozen=True, tag="share_member_removed"):
    group_id: GroupId
    member_id: str


class ShareEpochSet(msgspec.Struct, frozen=True, tag="share_epoch_set"):
    """In a snapshot: members that came and went have left their mark on it."""

    group_id: GroupId
    epoch: int


class ShareGroupDeleted(msgspec.Struct, frozen=True, tag="share_group_deleted"):
    group_id: GroupId


class ShareMembersTakenOver(msgspec.Struct, frozen=True, tag="share_members_taken_over"):
    """Those that a log of queues kept until then; it has no say any more."""

    epochs: dict[GroupId, int]
    members: tuple[tuple[GroupId, ShareMember], ...]


# --- all ---------------------------------------------------------------------------------------


class GroupConfigured(msgspec.Struct, frozen=True, tag="group_configured"):
    """What was set for the group, written here before the metadata had it."""

    group_id: GroupId
    settings: GroupSettings


class GroupDeleted(msgspec.Struct, frozen=True, tag="group_deleted"):
    """The group's members and epochs are gone.  Its offsets are records of their own."""

    group_id: GroupId


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """A group's committed offset in one partition: the next one to read."""

    topic: TopicName
    partition: int
    offset: Offset
    leader_epoch: int = -1
    metadata: str = ""
    committed_at: Timestamp = Timestamp(0)
    expires_at: Timestamp | None = None  # only when the client asked for a retention of its own


class OffsetsCommitted(msgspec.Struct, frozen=True, tag="offsets_committed"):
    group_id: GroupId
    offsets: tuple[CommittedOffset, ...]


class PendingOffsetsAdded(msgspec.Struct, frozen=True, tag="pending_offsets_added"):
    """Offsets that a transaction of this producer commits with its end."""

    group_id: GroupId
    producer_id: int
    epoch: int
    offsets: tuple[CommittedOffset, ...]


class PendingOffsetsEnded(msgspec.Struct, frozen=True, tag="pending_offsets_ended"):
    """The producer's transactions of this epoch, and of older ones, are over."""

    group_id: GroupId
    producer_id: int
    epoch: int
    committed: tuple[CommittedOffset, ...]  # nothing when it was aborted


class OffsetsDeleted(msgspec.Struct, frozen=True, tag="offsets_deleted"):
    group_id: GroupId
    partitions: tuple[TopicPartition, ...]


class TransactionCoordinatorSeen(
    msgspec.Struct, frozen=True, tag="transaction_coordinator_seen", gc=False, omit_defaults=True
):
    """A marker came from a coordinator with this epoch; those of older ones are refused."""

    epoch: int
    coordinator: int = 0  # the partition of `__transactions`


ClassicRecord: TypeAlias = (
    ClassicMemberSaved
    | ClassicMemberReplaced
    | ClassicMemberRemoved
    | ClassicPhaseChanged
    | ClassicAssigned
)
ConsumerRecord: TypeAlias = (
    ConsumerMemberSaved | ConsumerMemberRemoved | EpochBumped | TargetSet | MemberMoved
)
ShareRecord: TypeAlias = ShareMemberSaved | ShareMemberRemoved | ShareEpochSet | ShareGroupDeleted
OffsetRecord: TypeAlias = (
    OffsetsCommitted | OffsetsDeleted | PendingOffsetsAdded | PendingOffsetsEnded
)
GroupRecord: TypeAlias = (
    ClassicRecord
    | ConsumerRecord
    | ShareRecord
    | ShareMembersTakenOver
    | TransactionCoordinatorSeen
    | GroupDeleted
    | GroupConfigured
    | OffsetRecord
)

_encoder = msgspec.msgpack.Encoder(uuid_format="bytes")
_decoder: msgspec.msgpack.Decoder[GroupRecord] = msgspec.msgpack.Decoder(GroupRecord)


def encode(record: GroupRecord) -> bytes:
    return bytes((FORMAT_VERSION,)) + _encoder.encode(record)


def decode(data: bytes) -> GroupRecord:
    if not data or data[0] != FORMAT_VERSION:
        raise CorruptData(f"group record of format {data[:1].hex() or 'none'}, 01 expected")
    try:
        return _decoder.decode(memoryview(data)[1:])
    except msgspec.DecodeError as error:
        raise CorruptData(f"group record: {error}") from error
