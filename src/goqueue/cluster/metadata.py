"""The metadata machine: which topics there are, and what they and the groups are set to.

Its log is `__metadata`.  Everything that must agree across a cluster and survive a restart, and
is not some group's or partition's own, is a record here.
"""

from collections.abc import Collection, Container, Generator, Iterable, Mapping
from typing import Literal

import msgspec

from goqueue.model.errors import (
    InvalidPartitions,
    InvalidSetting,
    PartitionNotFound,
    PolicyViolation,
    TopicExists,
    TopicIdNotFound,
    TopicNotFound,
    WrongDataDirectory,
)
from goqueue.model.ids import GroupId, NodeId, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.names import is_internal
from goqueue.model.settings import TopicSettings, stored_text, topic_settings


class ClusterNamed(msgspec.Struct, frozen=True, tag="cluster"):
    cluster_id: str


class TopicCreated(msgspec.Struct, frozen=True, tag="topic"):
    topic_id: TopicId
    name: TopicName
    partitions: int
    settings: dict[str, str]
    created_at: Timestamp


class PartitionsAdded(msgspec.Struct, frozen=True, tag="partitions"):
    topic_id: TopicId
    partitions: int  # in all


class SettingsChanged(msgspec.Struct, frozen=True, tag="settings"):
    topic_id: TopicId
    settings: dict[str, str]


class TopicDeleted(msgspec.Struct, frozen=True, tag="deleted"):
    """Nothing else allows the data of a topic to be removed; kept until that is done."""

    topic_id: TopicId


class TopicDataRemoved(msgspec.Struct, frozen=True, tag="data-removed"):
    """The deletion was carried out: its record need not be kept any longer."""

    topic_id: TopicId


class ProducerIdsReserved(msgspec.Struct, frozen=True, tag="producer-ids"):
    next_producer_id: int


class NodeRegistered(msgspec.Struct, frozen=True, tag="node"):
    """A node has started, with its data directory."""

    node_id: NodeId
    directory_id: str  # made with the data directory
    incarnation: int  # how often that was started
    epoch: int  # of the node: rises with every registration in the cluster


class ConfigChanged(msgspec.Struct, frozen=True, tag="config"):
    """All that is set for the resource from now on; what is not named has its default."""

    resource: Literal["group"]
    name: str
    configs: dict[str, str]


class GroupConfigsTakenOver(msgspec.Struct, frozen=True, tag="group-configs-taken-over"):
    """What the logs of groups and queues said until then; they have no say any more."""

    configs: dict[GroupId, dict[str, str]]


MetadataRecord = (
    ClusterNamed
    | TopicCreated
    | PartitionsAdded
    | SettingsChanged
    | TopicDeleted
    | TopicDataRemoved
    | ProducerIdsReserved
    | NodeRegistered
    | ConfigChanged
    | GroupConfigsTakenOver
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[MetadataRecord] = msgspec.json.Decoder(MetadataRecord)


class Topic(msgspec.Struct, frozen=True):
    topic_id: TopicId
    name: TopicName
    partitions: int
    overrides: dict[str, str]  # what was set for this topic, as text
    settings: TopicSettings  # the same with defaults, ready for use
    created_at: Timestamp

    @property
    def is_internal(self) -> bool:
        return is_internal(self.name)

    @property
    def replication_factor(self) -> int:
        return 1  # of a node that has no peers

    def has_partition(self, partition: int) -> bool:
        return 0 <= partition < self.partitions

    def check_partition(self, partition: int) -> None:
        if not self.has_partition(partition):
            raise PartitionNotFound(
                f"topic {self.name!r} has partitions 0 to {self.partitions - 1}, not {partition}"
            )


class Metadata:
    """Only `apply` changes it, so a replay rebuilds it exactly."""

    def __init__(self, defaults: Mapping[str, str], partitions_max: int) -> None:
        self._defaults = dict(defaults)
        self._partitions_max = partitions_max
        self._by_name: dict[TopicName, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._by_folded_name: dict[str, TopicName] = {}
        self._deleted: dict[TopicId, None] = {}  # whose data may still be there; in order
        self._group_configs: dict[GroupId, dict[str, str]] = {}  # of whom anything is set
        self._group_configs_taken_over = False
        self._cluster_id = ""
        self._next_producer_id = 0
        self._nodes: dict[NodeId, NodeRegistered] = {}

    def copy(self) -> "Metadata":
        """One that goes its own way from here."""
        copy = Metadata(self._defaults, self._partitions_max)
        copy._by_name.update(self._by_name)
        copy._by_id.update(self._by_id)
        copy._by_folded_name.update(self._by_folded_name)
        copy._deleted.update(self._deleted)
        copy._group_configs.update(self._group_configs)
        copy._group_configs_taken_over = self._group_configs_taken_over
        copy._cluster_id = self._cluster_id
        copy._next_producer_id = self._next_producer_id
        copy._nodes.update(self._nodes)
        return copy

    # --- reading ----------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    @property
    def next_producer_id(self) -> int:
        return self._next_producer_id

    @property
    def nodes(self) -> Mapping[NodeId, NodeRegistered]:
        return self._nodes

    @property
    def topics(self) -> Mapping[TopicName, Topic]:
        return self._by_name

    @property
    def group_configs(self) -> Mapping[GroupId, Mapping[str, str]]:
        """What is set for groups, which need not be there; a change makes a new mapping."""
        return self._group_configs

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(TopicName(name))

    def topic(self, name: str) -> Topic:
        topic = self._by_name.get(TopicName(name))
        if topic is None:
            raise TopicNotFound(f"there is no topic {name!r}")
        return topic

    def has_id(self, topic_id: TopicId) -> bool:
        return topic_id in self._by_id

    @property
    def deleted(self) -> Collection[TopicId]:
        """Topics whose deletion is decided, and whose data is not known to be removed."""
        return self._deleted.keys()

    def topic_by_id(self, topic_id: TopicId) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise TopicIdNotFound(f"there is no topic with id {topic_id}")
        return topic

    # --- deciding ---------------------------------------------------------------------------------

    def name_cluster(self, cluster_id: str) -> Decision[MetadataRecord, str]:
        if self._cluster_id:
            return Decision((), self._cluster_id)
        return Decision((ClusterNamed(cluster_id),), cluster_id)

    def create_topic(
        self,
        name: TopicName,
        *,
        topic_id: TopicId,
        partitions: int,
        settings: Mapping[str, str],
        now: Timestamp,
        may_look_alike: bool = False,
    ) -> Decision[MetadataRecord, Topic]:
        if name in self._by_name:
            raise TopicExists(f"topic {name!r} exists already")
        if not may_look_alike:
            self._refuse_look_alike(name)
        self._check_partitions(partitions)
        kept = {key: stored_text(key, text) for key, text in settings.items()}
        record = TopicCreated(topic_id, name, partitions, kept, now)
        topic = self._topic_of(record)
        _check_min_insync(topic, settings)
        return Decision((record,), topic)

    def add_partitions(self, name: str, partitions: int) -> Decision[MetadataRecord, Topic]:
        topic = self.topic(name)
        if partitions <= topic.partitions:
            raise InvalidPartitions(
                f"topic {name!r} has {topic.partitions} partitions; {partitions} is not more,"
                " and partitions cannot be taken away"
            )
        self._check_partitions(partitions)
        record = PartitionsAdded(topic.topic_id, partitions)
        return Decision((record,), msgspec.structs.replace(topic, partitions=partitions))

    def change_settings(
        self, name: str, changes: Mapping[str, str | None], *, replace: bool = False
    ) -> Decision[MetadataRecord, Topic]:
        """Set or, with None, unset; with `replace` whatever is not named is unset too."""
        topic = self.topic(name)
        kept = {
            key: None if value is None else stored_text(key, value)
            for key, value in changes.items()
        }
        settings = _changed({} if replace else topic.overrides, kept)
        changed = msgspec.structs.replace(
            topic, overrides=settings, settings=topic_settings({**self._defaults, **settings})
        )
        _check_min_insync(changed, changes)
        if settings == topic.overrides:
            return Decision((), topic)
        return Decision((SettingsChanged(topic.topic_id, settings),), changed)

    def change_group_config(
        self, group_id: GroupId, changes: Mapping[str, str | None]
    ) -> Decision[MetadataRecord, None]:
        """Set or, with None, unset; whoever reads the settings has checked them."""
        before = self._group_configs.get(group_id, {})
        configs = _changed(before, changes)
        records = () if configs == before else (ConfigChanged("group", group_id, configs),)
        return Decision(records, None)

    def take_over_group_configs(
        self, configs: Mapping[GroupId, Mapping[str, str]]
    ) -> Decision[MetadataRecord, None]:
        """Of logs that kept settings themselves; only the first time, for they do not change."""
        if self._group_configs_taken_over or not configs:
            return Decision((), None)
        taken = {group_id: dict(each) for group_id, each in configs.items()}
        return Decision((GroupConfigsTakenOver(taken),), None)

    def delete_topic(self, name: str) -> Decision[MetadataRecord, Topic]:
        topic = self.topic(name)
        return Decision((TopicDeleted(topic.topic_id),), topic)

    def note_data_removed(self, topic_ids: Iterable[TopicId]) -> Decision[MetadataRecord, None]:
        removed = [each for each in topic_ids if each in self._deleted]
        return Decision([TopicDataRemoved(each) for each in removed], None)

    def register_node(
        self, node_id: NodeId, *, directory_id: str, incarnation: int, replace: bool = False
    ) -> Decision[MetadataRecord, NodeRegistered]:
        """With `replace` whatever was registered before: the node's disk is the newer one."""
        known = self._nodes.get(node_id)
        if known is not None and not replace:
            _check_directory(known, directory_id, incarnation)
        epoch = 1 + max((each.epoch for each in self._nodes.values()), default=0)
        record = NodeRegistered(node_id, directory_id, incarnation, epoch)
        return Decision((record,), record)

    def reserve_producer_ids(self, count: int) -> Decision[MetadataRecord, int]:
        """The first of `count` ids that nobody else will get."""
        first = self._next_producer_id
        return Decision((ProducerIdsReserved(first + count),), first)

    def _check_partitions(self, partitions: int) -> None:
        if not 1 <= partitions <= self._partitions_max:
            raise InvalidPartitions(
                f"{partitions} partitions; allowed are 1 to {self._partitions_max}"
                " (setting topics.partitions_max)"
            )

    def _refuse_look_alike(self, name: TopicName) -> None:
        """`a.b` and `a_b` would be one and the same name in metrics."""
        other = self._by_folded_name.get(_folded(name))
        if other is not None:
            raise PolicyViolation(f"topic {name!r} differs from {other!r} only by '.' and '_'")

    # --- the machine ------------------------------------------------------------------------------

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case ClusterNamed():
                self._cluster_id = record.cluster_id
            case TopicCreated():
                self._put(self._topic_of(record))
            case PartitionsAdded():
                topic = self._by_id[record.topic_id]
                self._put(msgspec.structs.replace(topic, partitions=record.partitions))
            case SettingsChanged():
                topic = self._by_id[record.topic_id]
                settings = topic_settings({**self._defaults, **record.settings})
                self._put(
                    msgspec.structs.replace(topic, overrides=record.settings, settings=settings)
                )
            case TopicDeleted():
                self._deleted[record.topic_id] = None
                deleted = self._by_id.pop(record.topic_id, None)  # None: a snapshot's record
                if deleted is not None:
                    del self._by_name[deleted.name]
                    if self._by_folded_name.get(_folded(deleted.name)) == deleted.name:
                        del self._by_folded_name[_folded(deleted.name)]
            case TopicDataRemoved():
                self._deleted.pop(record.topic_id, None)
            case NodeRegistered():
                before = self._nodes.get(record.node_id)
                assert before is None or record.epoch > before.epoch, "node epochs never fall"
                self._nodes[record.node_id] = record
            case ProducerIdsReserved():
                self._next_producer_id = record.next_producer_id
            case ConfigChanged(name=name, configs=configs):
                self._set_group_config(GroupId(name), configs)
            case GroupConfigsTakenOver(configs=configs):
                self._group_configs_taken_over = True
                for group_id, each in configs.items():
                    self._set_group_config(group_id, each)

    def _set_group_config(self, group_id: GroupId, configs: dict[str, str]) -> None:
        if configs:
            self._group_configs[group_id] = configs
        else:
            self._group_configs.pop(group_id, None)

    def snapshot(self) -> Generator[MetadataRecord, None, None]:
        head: list[MetadataRecord] = [
            ClusterNamed(self._cluster_id),
            ProducerIdsReserved(self._next_producer_id),
        ]
        if self._group_configs_taken_over:
            head.append(GroupConfigsTakenOver({}))
        head += self._nodes.values()
        topics, deleted = list(self._by_name.values()), list(self._deleted)
        return _snapshot(head, topics, deleted, list(self._group_configs.items()))

    def encode(self, record: MetadataRecord) -> bytes:
        return _encoder.encode(record)

    def decode(self, data: bytes) -> MetadataRecord:
        return _decoder.decode(data)

    def next_deadline(self) -> Timestamp | None:
        return None

    def on_deadline(self, now: Timestamp) -> Decision[MetadataRecord, None]:
        return Decision((), None)

    def _put(self, topic: Topic) -> None:
        self._by_name[topic.name] = topic
        self._by_id[topic.topic_id] = topic
        self._by_folded_name[_folded(topic.name)] = topic.name

    def _topic_of(self, record: TopicCreated) -> Topic:
        return Topic(
            record.topic_id,
            record.name,
            record.partitions,
            record.settings,
            topic_settings({**self._defaults, **record.settings}),
            record.created_at,
        )


def _snapshot(
    head: list[MetadataRecord],
    topics: list[Topic],
    deleted: list[TopicId],
    group_configs: list[tuple[GroupId, dict[str, str]]],
) -> Generator[MetadataRecord, None, None]:
    yield from head
    for t in topics:
        yield TopicCreated(t.topic_id, t.name, t.partitions, t.overrides, t.created_at)
    for topic_id in deleted:
        yield TopicDeleted(topic_id)
    for group_id, configs in group_configs:
        yield ConfigChanged("group", group_id, configs)


def _check_directory(known: NodeRegistered, directory_id: str, incarnation: int) -> None:
    if known.directory_id != directory_id:
        raise WrongDataDirectory(
            f"node {known.node_id} is registered with another data directory: start it with that"
            f" one (id {known.directory_id}; this one has {directory_id}), or give it another"
            " number (node_id)"
        )
    if incarnation <= known.incarnation:
        raise WrongDataDirectory(
            f"this is an older copy of node {known.node_id}'s data directory: it was started"
            f" {known.incarnation} times, and this copy {incarnation} times"
        )


def _changed(before: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """What is set afterwards; None unsets."""
    merged = {**before, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def _check_min_insync(topic: Topic, given: Container[str]) -> None:
    """Refuse what no number of live nodes could meet.

    What came from the server's defaults, or was set when it was not looked at, is taken for as
    many replicas as there are.
    """
    wanted = topic.settings.min_insync_replicas
    if "min.insync.replicas" in given and wanted > topic.replication_factor:
        raise InvalidSetting(
            f"min.insync.replicas={wanted}: the topic has replication factor"
            f" {topic.replication_factor}, so there are never {wanted} replicas in sync"
        )


def _folded(name: str) -> str:
    return name.replace(".", "_")
