"""Which node is the controller, where any node may be.

A node that does not hear the controller asks the others, and takes the term of the metadata's log
when a majority does not hear it either.  Two of them may do so at the same time: the log gives the
term to one.  The majority is not for safety, which the term gives: it keeps a node that reaches the
log, and no other node, from taking the term and fencing everybody else.

    majority   of the electorate: nodes that are live, and the one that asks.  The controller that
               is not heard does not count, unless the node that asks is fenced: of two nodes that
               do not reach each other, the one that was fenced does not take the term back.
               Or of all nodes, fenced or not: a controller that is cut off has fenced them all
    does not   it says so, or nobody listens at its port: the process is gone
    hear

The controller itself is asked, too.  If it answers that it decides, the node that asked was slow.
"""

from collections.abc import Mapping

from goqueue.cluster.controller.node_states import unfence_node
from goqueue.cluster.controller.registration import Registration, register_node
from goqueue.cluster.metadata import (
    NO_NODE,
    ClusterNamed,
    ControllerElected,
    Metadata,
    MetadataRecord,
    Node,
)
from goqueue.model.ids import NodeEpoch, NodeId
from goqueue.model.machine import Decision


def askable(metadata: Metadata, me: NodeId) -> frozenset[NodeId]:
    """The nodes to ask whether they hear the controller."""
    if not electorate(metadata, me):
        return frozenset()
    return frozenset(node.node_id for node in metadata.nodes.members) - {me}


def electorate(metadata: Metadata, me: NodeId) -> frozenset[NodeId]:
    """Of whom a majority must not hear the controller; empty when the node has no say."""
    nodes, holder = metadata.nodes, metadata.controller.node_id
    members = {node.node_id for node in nodes.members}
    if not members:
        return frozenset({me})  # it forms the cluster
    if me not in members:
        return frozenset()
    live = {node_id for node_id in members if nodes.live(node_id)}
    return frozenset(live - {holder} if me in live else live) | {me}


def is_vacant(metadata: Metadata, me: NodeId, hears: Mapping[NodeId, bool | None]) -> bool:
    """Whether the node may take the term, by what the others said; None: they did not answer."""
    if not electorate(metadata, me) or hears.get(metadata.controller.node_id):
        return False
    deaf = {me, *(node_id for node_id, hears_it in hears.items() if hears_it is False)}
    members = {node.node_id for node in metadata.nodes.members}
    return any(2 * len(deaf & asked) > len(asked) for asked in (electorate(metadata, me), members))


def take_control(
    metadata: Metadata, term: int, node: Registration, *, cluster_id: str
) -> Decision[MetadataRecord, NodeEpoch]:
    """The node has taken the term: it is registered and active, and everybody knows it.

    `cluster_id` is for a cluster that has no name yet.  Raises `WrongDataDirectory`.
    """
    known = metadata.nodes.get(node.node_id)
    if known is None or known.state == "removed" or not _is_same_process(known, node):
        registered = register_node(metadata, node, state="active")
        records, epoch = list(registered.records), registered.reply.epoch
    else:
        records, epoch = [], known.epoch
        if not known.is_live:  # it knows all of the metadata by now
            records += unfence_node(metadata, node.node_id).records
    if not metadata.cluster_id:
        records.insert(0, ClusterNamed(cluster_id))
    first = metadata.controller.formed_by if metadata.controller.term else node.node_id
    return Decision([*records, ControllerElected(term, node.node_id, first)], epoch)


def resign_control(metadata: Metadata, term: int) -> Decision[MetadataRecord, None]:
    """Nobody need wait for a session of the controller that goes."""
    first = metadata.controller.formed_by
    return Decision((ControllerElected(term, NO_NODE, first),), None)


def _is_same_process(known: Node, node: Registration) -> bool:
    """Also at the same addresses."""
    return (known.directory_id, known.incarnation, known.addresses) == (
        node.directory_id,
        node.incarnation,
        node.addresses,
    )
