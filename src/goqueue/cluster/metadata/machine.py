"""The metadata machine: which nodes, topics and partitions there are, and what is set for them.

Its log is `__metadata`, or etcd's.  Everything that must agree across a cluster and survive a
restart, and is not some group's or partition's own, is a record here.  What is decided, and why, is
in `goqueue.cluster.controller`.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import TypeVar

import msgspec

from goqueue.cluster.metadata import records
from goqueue.cluster.metadata.nodes import Node, NodeTable
from goqueue.cluster.metadata.partitions import (
    PartitionTable,
    apply_change,
    pack_placements,
    place_partition,
    role_of,
)
from goqueue.cluster.metadata.records import (
    NO_NODE,
    ClusterNamed,
    ConfigChanged,
    ControllerElected,
    FeatureLevel,
    GroupConfigsTakenOver,
    MetadataRecord,
    NodeChanged,
    NodeRegistered,
    Nodes,
    PartitionChanged,
    PartitionsAdded,
    PartitionState,
    Placements,
    ProducerIdsReserved,
    ReplicaGone,
    SecurityRecord,
    SettingsChanged,
    TopicCreated,
    TopicDataRemoved,
    TopicDeleted,
    TopicsPlaced,
)
from goqueue.cluster.metadata.security import SecurityTable
from goqueue.cluster.metadata.topics import Topic, TopicTable
from goqueue.cluster.replication import Role
from goqueue.model.errors import TopicIdNotFound, TopicNotFound
from goqueue.model.ids import GroupId, NodeId, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.settings import TopicSettings, topic_settings

Configs = dict[str, str]
NameT = TypeVar("NameT", bound=str)


class Metadata:
    """Only `apply` changes it, so a replay rebuilds it exactly."""

    def __init__(self, defaults: Mapping[str, str], partitions_max: int) -> None:
        self._defaults = dict(defaults)
        self.partitions_max = partitions_max  # of a topic
        self._cluster_id = ""
        self._controller = ControllerElected(0, NO_NODE)
        self._next_producer_id = 0
        self._topics = TopicTable()
        self._partitions = PartitionTable()
        self._nodes = NodeTable()
        self._features: dict[str, int] = {}
        self._broker_configs: dict[str, Configs] = {}  # by node, of those that have any
        self._group_configs: dict[GroupId, Configs] = {}  # of whom anything is set
        self._group_configs_taken_over = False
        self._security = SecurityTable()

    def copy(self) -> "Metadata":
        """One that goes its own way from here."""
        copy = Metadata(self._defaults, self.partitions_max)
        copy._cluster_id = self._cluster_id
        copy._controller = self._controller
        copy._next_producer_id = self._next_producer_id
        copy._topics = self._topics.copy()
        copy._partitions = self._partitions.copy()
        copy._nodes.update(self._nodes)
        copy._features.update(self._features)
        copy._broker_configs.update(self._broker_configs)
        copy._group_configs.update(self._group_configs)
        copy._group_configs_taken_over = self._group_configs_taken_over
        copy._security = self._security.copy()
        return copy

    # --- reading ----------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    @property
    def controller(self) -> ControllerElected:
        """Who decides, and under which term (0: no node was ever elected)."""
        return self._controller

    @property
    def next_producer_id(self) -> int:
        return self._next_producer_id

    @property
    def nodes(self) -> NodeTable:
        return self._nodes

    @property
    def features(self) -> Mapping[str, int]:
        """The level of each feature that all nodes work with."""
        return self._features

    @property
    def topics(self) -> Mapping[TopicName, Topic]:
        return self._topics.by_name

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What is set for nodes, by their id as text; empty: for all."""
        return self._broker_configs

    @property
    def group_configs(self) -> Mapping[GroupId, Mapping[str, str]]:
        """What is set for groups, which need not be there; a change makes a new mapping."""
        return self._group_configs

    @property
    def group_configs_taken_over(self) -> bool:
        return self._group_configs_taken_over

    @property
    def security(self) -> SecurityTable:
        """Users, roles and access control lists."""
        return self._security

    def find(self, name: str) -> Topic | None:
        return self._topics.by_name.get(TopicName(name))

    def topic(self, name: str) -> Topic:
        topic = self._topics.by_name.get(TopicName(name))
        if topic is None:
            raise TopicNotFound(f"there is no topic {name!r}")
        return topic

    def has_id(self, topic_id: TopicId) -> bool:
        return topic_id in self._topics.by_id

    def look_alike(self, name: TopicName) -> TopicName | None:
        """A topic that differs only by '.' and '_'."""
        return self._topics.look_alike(name)

    @property
    def deleted(self) -> Collection[TopicId]:
        """Topics whose deletion is decided, and whose data is not known to be removed."""
        return self._topics.deleted.keys()

    @property
    def deletions(self) -> Mapping[TopicId, Nodes]:
        """The same, with the nodes that have data of them."""
        return self._topics.deleted

    def topic_by_id(self, topic_id: TopicId) -> Topic:
        topic = self._topics.by_id.get(topic_id)
        if topic is None:
            raise TopicIdNotFound(f"there is no topic with id {topic_id}")
        return topic

    @property
    def partitions(self) -> PartitionTable:
        """Of all topics; `partitions.of(topic_id)` are one's."""
        return self._partitions

    def partition(self, topic_id: TopicId, index: int) -> PartitionState:
        topic = self.topic_by_id(topic_id)
        topic.check_partition(index)
        state = self._partitions.find(topic_id, index)
        assert state is not None, "the first node that registers is given what has no place"
        return state

    def role(self, node_id: NodeId, topic_id: TopicId, index: int) -> Role:
        """What the node is to the partition."""
        return role_of(self.partition(topic_id, index), node_id)

    @property
    def unplaced(self) -> list[Topic]:
        """Topics from before placements were kept."""
        if self._partitions.topic_count == len(self._topics.by_id):
            return []
        of = self._partitions.of
        return [topic for topic in self._topics.by_id.values() if not of(topic.topic_id)]

    def settings_of(self, overrides: Mapping[str, str], replication_factor: int) -> TopicSettings:
        """With the server's defaults; raises `InvalidSetting`."""
        return topic_settings({**self._defaults, **overrides}, replication_factor)

    def topic_of(self, record: TopicCreated) -> Topic:
        """As it will be once the record is applied; raises `InvalidSetting`."""
        factor = _replication_factor(record.placements)
        return Topic(
            record.topic_id,
            record.name,
            record.partitions,
            record.settings,
            self.settings_of(record.settings, factor),
            record.created_at,
            factor,
        )

    # --- the machine ------------------------------------------------------------------------------

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case ClusterNamed():
                self._cluster_id = record.cluster_id
            case TopicCreated() | PartitionsAdded() | TopicsPlaced() | SettingsChanged():
                self._apply_to_topic(record)
            case PartitionChanged():
                self._change_partition(record)
            case TopicDeleted():
                self._partitions.remove(record.topic_id)
                self._topics.delete(record)
            case ReplicaGone():
                self._topics.forget_replica(record.topic_id, record.node_id)
            case TopicDataRemoved():
                self._topics.deleted.pop(record.topic_id, None)
            case NodeRegistered():
                before, node = self._nodes.get(record.node_id), Node.of(record)
                assert before is None or node.follows(before), "node epochs never fall"
                self._put_node(node)
            case NodeChanged():
                node = self._nodes[record.node_id]
                assert node.epoch == record.epoch, "decided for another registration"
                self._put_node(msgspec.structs.replace(node, state=record.state))
            case ControllerElected():
                assert record.term >= self._controller.term, "terms never fall"
                self._controller = record
            case FeatureLevel():
                self._features[record.name] = record.level
            case ProducerIdsReserved():
                self._next_producer_id = record.next_producer_id
            case ConfigChanged(resource="broker"):
                _set(self._broker_configs, record.name, record.configs)
            case ConfigChanged():
                _set(self._group_configs, GroupId(record.name), record.configs)
            case GroupConfigsTakenOver(configs=configs):
                self._group_configs_taken_over = True
                for group_id, each in configs.items():
                    _set(self._group_configs, group_id, each)
            case _:
                self._security.apply(record)

    def _apply_to_topic(
        self, record: TopicCreated | PartitionsAdded | TopicsPlaced | SettingsChanged
    ) -> None:
        match record:
            case TopicCreated():
                self._topics.put(self.topic_of(record))
                self._place(record.topic_id, record.placements, record.partitions)
            case PartitionsAdded():
                topic = self._topics.by_id[record.topic_id]
                self._topics.put(msgspec.structs.replace(topic, partitions=record.partitions))
                count = record.partitions - topic.partitions
                self._place(record.topic_id, record.placements, count)
            case TopicsPlaced():
                state = place_partition((record.node_id,))
                for topic in self.unplaced:
                    self._place(topic.topic_id, (state,), topic.partitions)
            case SettingsChanged():
                topic = self._topics.by_id[record.topic_id]
                self._put_settings(topic, record.settings, topic.replication_factor)

    def _place(self, topic_id: TopicId, states: Placements, count: int) -> None:
        self._partitions.add(topic_id, states, count, self._check_nodes)

    def _change_partition(self, record: PartitionChanged) -> None:
        state = apply_change(self.partition(record.topic_id, record.partition), record)
        self._check_nodes(state)
        self._partitions.replace(record.topic_id, record.partition, state)
        topic, factor = self._topics.by_id[record.topic_id], _replication_factor((state,))
        if record.partition == 0 and factor != topic.replication_factor:
            self._put_settings(topic, topic.overrides, factor)

    def _put_settings(self, topic: Topic, overrides: Configs, replication_factor: int) -> None:
        self._topics.put(
            msgspec.structs.replace(
                topic,
                overrides=overrides,
                settings=self.settings_of(overrides, replication_factor),
                replication_factor=replication_factor,
            )
        )

    def _check_nodes(self, state: PartitionState) -> None:
        """That they may be what the state says; a node that is not known may."""
        leader = self._nodes.get(state.leader)
        assert leader is None or leader.is_live, "a fenced node leads nothing"
        for node_id in state.replicas:
            node = self._nodes.get(node_id)
            assert node is None or node.state != "removed", "a removed node has no replica"

    def _put_node(self, node: Node) -> None:
        count = self._partitions
        assert node.is_live or not count.leader_count(node.node_id), "a fenced node leads nothing"
        is_removed = node.state == "removed"
        assert not is_removed or not count.replica_count(node.node_id), "it has replicas"
        self._nodes[node.node_id] = node

    def snapshot(self) -> Generator[MetadataRecord, None, None]:
        head: list[MetadataRecord] = [
            ClusterNamed(self._cluster_id),
            ProducerIdsReserved(self._next_producer_id),
        ]
        if self._group_configs_taken_over:
            head.append(GroupConfigsTakenOver({}))
        head += [node.record for node in self._nodes.values()]
        if self._controller.term:
            head.append(self._controller)
        head += [FeatureLevel(name, level) for name, level in self._features.items()]
        configs: list[ConfigChanged | SecurityRecord]
        configs = [ConfigChanged("broker", *each) for each in self._broker_configs.items()]
        configs += [ConfigChanged("group", *each) for each in self._group_configs.items()]
        configs += self._security.snapshot()
        of = self._partitions.of
        topics = [(topic, list(of(topic.topic_id))) for topic in self._topics.by_name.values()]
        return _snapshot(head, topics, list(self._topics.deleted.items()), configs)

    def encode(self, record: MetadataRecord) -> bytes:
        return records.encode(record)

    def decode(self, data: bytes) -> MetadataRecord:
        return records.decode(data)

    def next_deadline(self) -> Timestamp | None:
        return None

    def on_deadline(self, now: Timestamp) -> Decision[MetadataRecord, None]:
        return Decision((), None)


def _snapshot(
    head: list[MetadataRecord],
    topics: list[tuple[Topic, list[PartitionState]]],
    deleted: list[tuple[TopicId, Nodes]],
    configs: list[ConfigChanged | SecurityRecord],
) -> Generator[MetadataRecord, None, None]:
    yield from head
    for topic, states in topics:
        yield TopicCreated(
            topic.topic_id,
            topic.name,
            topic.partitions,
            topic.overrides,
            topic.created_at,
            pack_placements(states),
        )
    for topic_id, nodes in deleted:
        yield TopicDeleted(topic_id, nodes)
    yield from configs


def _replication_factor(states: Sequence[PartitionState]) -> int:
    """That of the first partition, once what moves has moved."""
    return len(states[0].replicas) - len(states[0].removing) if states else 1


def _set(configs: dict[NameT, Configs], name: NameT, texts: Configs) -> None:
    if texts:
        configs[name] = texts
    else:
        configs.pop(name, None)
