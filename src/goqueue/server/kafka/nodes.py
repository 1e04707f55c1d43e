"""The nodes of the cluster, and where a client reaches them."""

from typing import Final

from goqueue.cluster import Node
from goqueue.model.config import Address
from goqueue.model.ids import NodeId
from goqueue.server.kafka.context import Context

EVERY_ADDRESS: Final = ("0.0.0.0", "::")

NodesAndAddresses = list[tuple[Node, Address]]


def is_reachable(address: Address) -> bool:
    """Whether a client can connect to it; to every address of some machine nobody can."""
    return address.host not in EVERY_ADDRESS


def reachable_nodes(context: Context, *, fenced: bool = False) -> NodesAndAddresses:
    """Those that answer, by number, and where this client reaches them; `fenced` ones, too."""
    found = []
    for node in sorted(context.broker.metadata.nodes.members, key=lambda each: each.node_id):
        address = address_of(context, node)
        if address is not None and (node.is_live or fenced):
            found.append((node, address))
    return found


def ids_of(nodes: NodesAndAddresses) -> frozenset[NodeId]:
    return frozenset(node.node_id for node, _ in nodes)


def address_of(context: Context, node: Node) -> Address | None:
    """None when the node has not said where it listens.

    Nodes that listen on every address, and advertise none, are taken to be on one machine.
    """
    if node.node_id == context.broker.node_id:
        return context.address
    address = node.addresses.get("kafka")
    if address is None or is_reachable(address):
        return address
    return Address(context.address.host, address.port)
