"""What happened in the cluster, as records of the metadata tell it: elections, ISRs, nodes, moves.

A record says what is; an event says what has changed, and is for people.  Nothing is decided by it.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from goqueue.cluster.metadata import (
    NO_LEADER,
    NO_NODE,
    ConfigChanged,
    ControllerElected,
    FeatureLevel,
    Metadata,
    MetadataRecord,
    NodeChanged,
    NodeRegistered,
    PartitionChanged,
    PartitionsAdded,
    PartitionState,
    TopicCreated,
    TopicDeleted,
)
from goqueue.cluster.metadata.partitions import apply_change
from goqueue.model.ids import NodeId, TopicName

EventKind = Literal[
    "controller_elected",
    "controller_resigned",
    "feature_raised",
    "isr_expanded",
    "isr_shrunk",
    "leader_elected",
    "leader_elected_uncleanly",
    "node_active",
    "node_draining",
    "node_fenced",
    "node_registered",
    "node_removed",
    "partition_offline",
    "partitions_added",
    "reassignment_completed",
    "reassignment_started",
    "settings_changed",
    "topic_created",
    "topic_deleted",
]


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    kind: EventKind
    text: str
    node_id: NodeId | None = None
    topic: TopicName | None = None
    partition: int | None = None


def events_of(metadata: Metadata, record: MetadataRecord) -> Iterator[ClusterEvent]:
    """What the record will change, which is not applied yet."""
    match record:
        case PartitionChanged():
            yield from _of_partition(metadata, record)
        case NodeRegistered() | NodeChanged():
            yield from _of_node(metadata, record)
        case ControllerElected(node_id=node_id, term=term) if node_id != NO_NODE:
            text = f"node {node_id} is the controller, in term {term}"
            yield ClusterEvent(kind="controller_elected", text=text, node_id=node_id)
        case ControllerElected(term=term):
            text = f"the controller of term {term} has resigned"
            yield ClusterEvent(kind="controller_resigned", text=text)
        case TopicCreated(name=name, partitions=count):
            text = f"topic {name} is created, with {_partitions(count)}"
            yield ClusterEvent(kind="topic_created", text=text, topic=name)
        case PartitionsAdded(topic_id=topic_id, partitions=count):
            name = metadata.topic_by_id(topic_id).name
            text = f"topic {name} has {_partitions(count)} now"
            yield ClusterEvent(kind="partitions_added", text=text, topic=name)
        case TopicDeleted(topic_id=topic_id) if metadata.has_id(topic_id):
            name = metadata.topic_by_id(topic_id).name
            yield ClusterEvent(kind="topic_deleted", text=f"topic {name} is deleted", topic=name)
        case FeatureLevel(name=feature, level=level):
            text = f"feature {feature} has level {level}"
            yield ClusterEvent(kind="feature_raised", text=text)
        case ConfigChanged(resource="broker", name=node, configs=configs):
            whose = f"node {node}" if node else "all nodes"
            what = ", ".join(f"{each}={value}" for each, value in sorted(configs.items()))
            text = f"settings of {whose}: {what or 'none'}"
            yield ClusterEvent(kind="settings_changed", text=text)
        case _:
            pass


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count} partitions"


def _of_node(metadata: Metadata, record: NodeRegistered | NodeChanged) -> Iterator[ClusterEvent]:
    node_id, before = record.node_id, metadata.nodes.get(record.node_id)
    if isinstance(record, NodeRegistered) and (before is None or before.epoch != record.epoch):
        text = f"node {node_id} has registered, start {record.incarnation} of its directory"
        yield ClusterEvent(kind="node_registered", text=text, node_id=node_id)
    if before is not None and before.state == record.state:
        return
    match record.state:
        case "active":
            text = f"node {node_id} is active"
            yield ClusterEvent(kind="node_active", text=text, node_id=node_id)
        case "fenced" if before is not None:
            text = f"node {node_id} is fenced: it does not answer, or starts"
            yield ClusterEvent(kind="node_fenced", text=text, node_id=node_id)
        case "draining":
            text = f"node {node_id} drains: others lead"
            yield ClusterEvent(kind="node_draining", text=text, node_id=node_id)
        case "removed":
            text = f"node {node_id} is removed for good"
            yield ClusterEvent(kind="node_removed", text=text, node_id=node_id)
        case _:
            pass


def _of_partition(metadata: Metadata, record: PartitionChanged) -> Iterator[ClusterEvent]:
    name = metadata.topic_by_id(record.topic_id).name
    before = metadata.partition(record.topic_id, record.partition)
    after = apply_change(before, record)

    def event(kind: EventKind, text: str, node_id: NodeId | None = None) -> ClusterEvent:
        return ClusterEvent(
            kind=kind,
            text=f"{name}-{record.partition}: {text}",
            node_id=node_id,
            topic=name,
            partition=record.partition,
        )

    if after.leader != before.leader and after.leader == NO_LEADER:
        yield event("partition_offline", f"nobody leads; node {before.leader} did")
    elif after.leader_epoch != before.leader_epoch and after.leader != NO_LEADER:
        text = f"node {after.leader} leads, in epoch {after.leader_epoch}"
        if record.unclean:
            lost = f"{text}; it was not in sync, and what it lacks is lost"
            yield event("leader_elected_uncleanly", lost, after.leader)
        else:
            yield event("leader_elected", text, after.leader)
    left = set(before.isr) & set(after.replicas)  # who has moved away is not missed
    gone, come = left - set(after.isr), set(after.isr) - set(before.isr)
    in_sync = f"in sync: {_numbers(after.isr)}"
    if gone:
        yield event("isr_shrunk", f"node {_numbers(sorted(gone))} is not in sync; {in_sync}")
    if come:
        yield event("isr_expanded", f"node {_numbers(sorted(come))} is in sync; {in_sync}")
    if _moves(after) and (before.adding, before.removing) != (after.adding, after.removing):
        wanted = [each for each in after.replicas if each not in after.removing]
        yield event("reassignment_started", f"moves to nodes {_numbers(wanted)}")
    elif _moves(before) and not _moves(after):
        yield event("reassignment_completed", f"is on nodes {_numbers(after.replicas)}")


def _moves(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def _numbers(nodes: "tuple[NodeId, ...] | list[NodeId]") -> str:
    return ", ".join(map(str, nodes)) or "nobody"
