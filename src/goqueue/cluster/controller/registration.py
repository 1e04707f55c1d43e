"""A node starts, and says which disk it has.

the same disk, later       welcome; it has all that it ever acknowledged, but for topics that are
                           not synced with each commit: whoever was in sync when it stopped may
                           have lost their end with the power, and leaves the ISR if another
                           replica stays in it (KIP-966)
another disk, or an older  welcome, empty-handed: in the same entry it leaves every ISR and ELR,
copy of the disk           for it lacks what it acknowledged.  Refused while it would be the
                           last replica of something: that is on the other disk
a node that was removed    refused
two processes, one id      the later one has the newer epoch, and the earlier one is refused
                           from then on (`StaleNodeEpoch`)
"""

from collections.abc import Mapping

import msgspec

from goqueue.cluster.controller.changes import Outcome, changes_of, settle, terms_of
from goqueue.cluster.controller.features import check_features
from goqueue.cluster.metadata import (
    FeatureRange,
    Metadata,
    MetadataRecord,
    Node,
    NodeRegistered,
    NodeState,
    PartitionState,
    TopicsPlaced,
)
from goqueue.model.config import Address
from goqueue.model.errors import WrongDataDirectory
from goqueue.model.ids import NodeEpoch, NodeId, TopicId
from goqueue.model.machine import Decision


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself."""

    node_id: NodeId
    directory_id: str
    incarnation: int
    addresses: Mapping[str, Address] = {}
    rack: str = ""
    machine: str = ""
    features: Mapping[str, FeatureRange] = {}


def register_node(
    metadata: Metadata,
    node: Registration,
    *,
    state: NodeState = "fenced",
    is_same_disk: bool = False,
) -> Decision[MetadataRecord, Node]:
    """`state` is active for the controller itself, which knows the metadata; others are fenced.

    `is_same_disk`: whatever was registered, for the metadata is on that very disk.
    """
    check_not_removed(metadata, node.node_id)
    known = metadata.nodes.get(node.node_id)
    check_features(metadata, node.node_id, node.features)
    problem = None if known is None or is_same_disk else _problem_of_disk(known, node)
    if problem is not None:
        _refuse_last_replicas(metadata, node.node_id, problem)
    record = _record(_fill_in(node, known), metadata.nodes.next_epoch(), state)
    changes = _changes(metadata, record, has_lost_data=problem is not None)
    is_live = state in ("active", "draining")
    records: list[MetadataRecord] = [record, *changes] if is_live else [*changes, record]
    if metadata.unplaced:
        records.append(TopicsPlaced(_owner_of_unplaced(metadata, node.node_id)))
    return Decision(records, Node.of(record))


def check_not_removed(metadata: Metadata, node_id: NodeId) -> None:
    """Raises `WrongDataDirectory`: a node that was removed is no member, and must not serve."""
    known = metadata.nodes.get(node_id)
    if known is not None and known.state == "removed":
        raise WrongDataDirectory(
            f"node {node_id} was removed from the cluster: give this one another number (node_id)"
        )


def announce_node(
    metadata: Metadata,
    node_id: NodeId,
    *,
    addresses: Mapping[str, Address],
    rack: str = "",
    machine: str = "",
) -> Decision[MetadataRecord, None]:
    """Where the node can be reached, once it listens; the registration stays the same one."""
    node = metadata.nodes.at(node_id)
    told = msgspec.structs.replace(node, addresses=dict(addresses), rack=rack, machine=machine)
    return Decision(() if told == node else (told.record,), None)


def _fill_in(node: Registration, known: Node | None) -> Registration:
    """What it does not say yet is as it was."""
    if known is None or node.addresses:
        return node
    return msgspec.structs.replace(
        node, addresses=known.addresses, rack=known.rack, machine=known.machine
    )


def _record(node: Registration, epoch: NodeEpoch, state: NodeState) -> NodeRegistered:
    return NodeRegistered(
        node.node_id,
        node.directory_id,
        node.incarnation,
        epoch,
        dict(node.addresses),
        node.rack,
        node.machine,
        dict(node.features),
        state,
    )


def _problem_of_disk(known: Node, node: Registration) -> str | None:
    if known.directory_id != node.directory_id:
        return (
            f"node {known.node_id} is registered with another data directory: start it with that"
            f" one (id {known.directory_id}; this one has {node.directory_id}), or give it another"
            " number (node_id)"
        )
    if node.incarnation <= known.incarnation:
        return (
            f"this is an older copy of node {known.node_id}'s data directory: it was started"
            f" {known.incarnation} times, and this copy {node.incarnation} times"
        )
    return None


def _refuse_last_replicas(metadata: Metadata, node_id: NodeId, problem: str) -> None:
    for topic_id, index, state in metadata.partitions:
        if {*state.isr, *state.elr} == {node_id}:
            name = metadata.topic_by_id(topic_id).name
            raise WrongDataDirectory(f"{problem}. Nobody else has all of {name}-{index}")
    if metadata.unplaced:
        name = metadata.unplaced[0].name
        raise WrongDataDirectory(f"{problem}. Nobody else has topic {name}")


def _changes(
    metadata: Metadata, record: NodeRegistered, *, has_lost_data: bool
) -> list[MetadataRecord]:
    node_id, is_live = record.node_id, record.state in ("active", "draining")
    if is_live and not has_lost_data and metadata.partitions.is_all_led_by(node_id):
        return []  # as everything below finds, at every start of a single broker

    def is_available(other: NodeId) -> bool:
        return is_live if other == node_id else metadata.nodes.live(other)

    def concerns(state: PartitionState) -> bool:
        if len(state.replicas) == 1:  # nobody has a copy to be confused by: its epoch is kept
            return state.replicas[0] == node_id and (state.leader != node_id or not is_live)
        return node_id in state.replicas

    def lacks_records(topic_id: TopicId, state: PartitionState) -> bool:
        if has_lost_data or node_id not in state.isr:
            return has_lost_data
        is_synced = metadata.topic_by_id(topic_id).settings.flush == "commit"
        return not is_synced and any(
            metadata.nodes.live(each) for each in state.isr if each != node_id
        )

    def follow(topic_id: TopicId, state: PartitionState) -> Outcome:
        lost = (node_id,) if lacks_records(topic_id, state) else ()
        terms = terms_of(metadata, topic_id, is_available, lost)
        return settle(state, terms, new_epoch=state.leader == node_id)

    return list(changes_of(metadata, concerns, follow))


def _owner_of_unplaced(metadata: Metadata, node_id: NodeId) -> NodeId:
    """The one node that there was before placements were kept, or the first there is."""
    return min(metadata.nodes, default=node_id)
