"""A node joins its cluster when it starts: it names a new one, or is registered again."""

import base64

import msgspec

from goqueue.broker.machine_host import MachineHost
from goqueue.broker.metadata.node_file import ETCD, NodeFile
from goqueue.cluster import Metadata, MetadataRecord, Node, controller
from goqueue.cluster.controller import Registration
from goqueue.cluster.features import supported_features
from goqueue.model.errors import WrongDataDirectory
from goqueue.model.machine import Decision
from goqueue.model.quorum import LOCAL
from goqueue.runtime import Random


def check(metadata: Metadata, node: NodeFile, *, is_alone: bool = True) -> None:
    """Raises `WrongDataDirectory` unless the node may start with this metadata."""
    if node.cluster_id and not metadata.cluster_id and node.quorum == ETCD:
        raise WrongDataDirectory(
            f"this data directory belongs to cluster {node.cluster_id}, and etcd has no metadata:"
            " the endpoints or the prefix in cluster.quorum are wrong, or etcd has lost its data"
            " and must be restored"
        )
    if metadata.cluster_id and node.cluster_id not in ("", metadata.cluster_id):
        raise WrongDataDirectory(
            f"this data directory belongs to cluster {node.cluster_id}, and the metadata to"
            f" cluster {metadata.cluster_id}"
        )
    others = metadata.nodes.keys() - {node.node_id}
    if others and node.quorum == ETCD and is_alone:
        raise WrongDataDirectory(
            f"cluster {metadata.cluster_id} has node {min(others)} already: to join it, give this"
            " node an address for the others (cluster.listen); to be alone, a prefix of its own in"
            " cluster.quorum"
        )
    _decide(metadata, node)


async def register(host: MachineHost[Metadata], node: NodeFile, random: Random) -> NodeFile:
    """Gives the node's file with the cluster in it.  Whoever calls has checked."""
    made = base64.urlsafe_b64encode(random.bytes(16)).decode().rstrip("=")
    cluster_id = await host.submit(
        lambda metadata: controller.name_cluster(metadata, node.cluster_id or made)
    )
    await host.submit_or_defer(lambda metadata: _decide(metadata, node))
    return msgspec.structs.replace(node, cluster_id=cluster_id)


def _decide(metadata: Metadata, node: NodeFile) -> Decision[MetadataRecord, Node]:
    return controller.register_node(
        metadata,
        Registration(
            node_id=node.node_id,
            directory_id=node.directory_id,
            incarnation=node.incarnation,
            features=supported_features(),
        ),
        state="active",  # it holds the term, so it knows the metadata
        is_same_disk=node.quorum == LOCAL,  # the metadata is on this very disk
    )
