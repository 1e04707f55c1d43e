"""The records of the metadata's log.

Tags and field names are on disks: they stay.  A field that is new has a default, so that records of
earlier versions are read; see docs/formats.md.
"""

from typing import Final, Literal

import msgspec

from goqueue.model.config import Address
from goqueue.model.ids import (
    NO_EPOCH,
    Epoch,
    GroupId,
    NodeEpoch,
    NodeId,
    PartitionEpoch,
    Timestamp,
    TopicId,
    TopicName,
)
from goqueue.quotas import QuotaEntity, Tenant
from goqueue.security import Acl, ApiKey, ScramCredential

NO_LEADER: Final = NodeId(-1)
NO_NODE: Final = NodeId(-1)

Nodes = tuple[NodeId, ...]
NodeState = Literal["active", "fenced", "draining", "removed"]


class PartitionState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a partition is, who leads it and who is in sync.

    New fields come last: the state is written as an array.
    """

    replicas: Nodes  # in the order in which they are preferred as leaders
    isr: Nodes  # in sync: they have all that is committed
    leader: NodeId  # or NO_LEADER
    leader_epoch: Epoch = Epoch(0)
    partition_epoch: PartitionEpoch = PartitionEpoch(0)
    elr: Nodes = ()  # eligible: they left the ISR when it was too small to commit any more
    last_known_elr: Nodes = ()  # the last who were neither; the last leader comes first
    adding: Nodes = ()  # replicas that a reassignment brings
    removing: Nodes = ()  # replicas that it takes away
    unclean_epoch: Epoch = NO_EPOCH  # of the last leader that may have lacked committed records


Placements = tuple[PartitionState, ...]  # of each partition; a single one: they are all the same


class ClusterNamed(msgspec.Struct, frozen=True, tag="cluster"):
    cluster_id: str


# --- topics and partitions ----------------------------------------------------------------------


class TopicCreated(msgspec.Struct, frozen=True, tag="topic", omit_defaults=True):
    topic_id: TopicId
    name: TopicName
    partitions: int
    settings: dict[str, str]
    created_at: Timestamp
    placements: Placements = ()  # none before they were kept


class PartitionsAdded(msgspec.Struct, frozen=True, tag="partitions", omit_defaults=True):
    topic_id: TopicId
    partitions: int  # in all
    placements: Placements = ()  # of those that are new


class TopicsPlaced(msgspec.Struct, frozen=True, tag="placed"):
    """Topics from before placements were kept are on the one node that there was."""

    node_id: NodeId


class PartitionChanged(msgspec.Struct, frozen=True, tag="partition", omit_defaults=True):
    """What is None stays as it was."""

    topic_id: TopicId
    partition: int
    partition_epoch: PartitionEpoch  # one more than before
    leader: NodeId | None = None
    leader_epoch: Epoch | None = None
    isr: Nodes | None = None
    elr: Nodes | None = None
    last_known_elr: Nodes | None = None
    replicas: Nodes | None = None
    adding: Nodes | None = None
    removing: Nodes | None = None
    unclean: bool = False  # the leader may lack committed records


class SettingsChanged(msgspec.Struct, frozen=True, tag="settings"):
    topic_id: TopicId
    settings: dict[str, str]


class TopicDeleted(msgspec.Struct, frozen=True, tag="deleted", omit_defaults=True):
    """Nothing else allows the data of a topic to be removed; kept until that is done."""

    topic_id: TopicId
    nodes: Nodes = ()  # that have data of it; none before they were kept: the one that there was


class ReplicaGone(msgspec.Struct, frozen=True, tag="replica-gone"):
    """The node has no data of the deleted topic any more."""

    topic_id: TopicId
    node_id: NodeId


class TopicDataRemoved(msgspec.Struct, frozen=True, tag="data-removed"):
    """As `ReplicaGone`, of the one node that there was.  Read, not written."""

    topic_id: TopicId


# --- nodes ----------------------------------------------------------------------------------------


class FeatureRange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The levels of a feature that a node can work with."""

    min_level: int
    max_level: int


class NodeRegistered(msgspec.Struct, frozen=True, tag="node", omit_defaults=True):
    """A node has started, with its data directory."""

    node_id: NodeId
    directory_id: str  # made with the data directory
    incarnation: int  # how often that was started
    epoch: NodeEpoch  # rises with every registration in the cluster
    addresses: dict[str, Address] = {}  # by listener
    rack: str = ""
    machine: str = ""  # nodes of one machine fail together
    features: dict[str, FeatureRange] = {}
    state: NodeState = "active"  # or fenced: it has yet to catch up with the metadata


class NodeChanged(msgspec.Struct, frozen=True, tag="node-state"):
    node_id: NodeId
    epoch: NodeEpoch
    state: NodeState


class ControllerElected(msgspec.Struct, frozen=True, tag="controller"):
    """The node decides the metadata under this term of its log; NO_NODE: it has resigned.

    Written where nodes elect their controller: everybody who follows the log knows whom to ask.
    """

    term: int
    node_id: NodeId
    formed_by: NodeId = NO_NODE  # the first one ever, which coordinates groups and transactions


class FeatureLevel(msgspec.Struct, frozen=True, tag="feature"):
    """All nodes work with the feature at this level from now on."""

    name: str
    level: int


# --- settings and ids -----------------------------------------------------------------------------


class ConfigChanged(msgspec.Struct, frozen=True, tag="config"):
    """All that is set for the resource from now on; what is not named has its default."""

    resource: Literal["group", "broker"]
    name: str  # of a broker: its node's id, or empty for all of them
    configs: dict[str, str]


class GroupConfigsTakenOver(msgspec.Struct, frozen=True, tag="group-configs-taken-over"):
    """What the logs of groups and queues said until then; they have no say any more."""

    configs: dict[GroupId, dict[str, str]]


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer-ids"):
    next_producer_id: int


# --- users and permissions ------------------------------------------------------------------------


class ScramSet(msgspec.Struct, frozen=True, tag="scram"):
    """The user has this password, for one mechanism."""

    user: str
    credential: ScramCredential


class ScramRemoved(msgspec.Struct, frozen=True, tag="scram-removed"):
    user: str
    mechanism: str


class RolesSet(msgspec.Struct, frozen=True, tag="roles"):
    user: str
    roles: tuple[str, ...]  # none: it has no role any more


class AclsAdded(msgspec.Struct, frozen=True, tag="acls"):
    acls: tuple[Acl, ...]


class AclsRemoved(msgspec.Struct, frozen=True, tag="acls-removed"):
    acls: tuple[Acl, ...]


class ApiKeySet(msgspec.Struct, frozen=True, tag="api-key"):
    key: ApiKey


class ApiKeyRemoved(msgspec.Struct, frozen=True, tag="api-key-removed"):
    key_id: str


class ApiKeysUsed(msgspec.Struct, frozen=True, tag="api-keys-used"):
    times: dict[str, int]  # milliseconds, by the key's id


class ClientQuotasChanged(msgspec.Struct, frozen=True, tag="client-quotas"):
    entity: QuotaEntity
    changes: dict[str, float | None]  # rates a second; None: there is none any more


class TenantSet(msgspec.Struct, frozen=True, tag="tenant"):
    tenant: Tenant


class TenantRemoved(msgspec.Struct, frozen=True, tag="tenant-removed"):
    tenant_id: str


class UserTenantSet(msgspec.Struct, frozen=True, tag="user-tenant"):
    user: str
    tenant_id: str  # empty: it belongs to none any more


SecurityRecord = (
    ScramSet
    | ScramRemoved
    | RolesSet
    | AclsAdded
    | AclsRemoved
    | ApiKeySet
    | ApiKeyRemoved
    | ApiKeysUsed
    | ClientQuotasChanged
    | TenantSet
    | TenantRemoved
    | UserTenantSet
)

MetadataRecord = (
    ClusterNamed
    | TopicCreated
    | PartitionsAdded
    | TopicsPlaced
    | PartitionChanged
    | SettingsChanged
    | TopicDeleted
    | ReplicaGone
    | TopicDataRemoved
    | NodeRegistered
    | NodeChanged
    | ControllerElected
    | FeatureLevel
    | ConfigChanged
    | GroupConfigsTakenOver
    | ProducerIdsReserved
    | SecurityRecord
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[MetadataRecord] = msgspec.json.Decoder(MetadataRecord)


def encode(record: MetadataRecord) -> bytes:
    return _encoder.encode(record)


def decode(data: bytes) -> MetadataRecord:
    return _decoder.decode(data)
