"""Two other nodes in a broker's metadata: what it answers as one node of several."""

from goqueue.broker import Broker
from goqueue.cluster import NodeRegistered, controller
from goqueue.cluster.metadata import NodeState
from goqueue.model.config import Address
from goqueue.model.ids import NodeId
from goqueue.model.machine import Decision

ME, SECOND, THIRD = NodeId(1), NodeId(2), NodeId(3)


async def join(broker: Broker) -> None:
    """Nodes 2 and 3 join, in a rack each, and answer."""
    for node_id in (SECOND, THIRD):
        await add_node(broker, node_id)


async def add_node(
    broker: Broker,
    node_id: NodeId,
    *,
    host: str | None = None,
    state: NodeState = "active",
) -> None:
    """It listens at `node-N:9092`, or at `host`; nowhere, if that is empty."""
    name = f"node-{node_id}" if host is None else host
    record = NodeRegistered(
        node_id,
        directory_id=f"disk-{node_id}",
        incarnation=1,
        epoch=broker.metadata.nodes.next_epoch(),
        addresses={"kafka": Address(name, 9092)} if name else {},
        rack=f"rack-{node_id}",
        machine=f"machine-{node_id}",
        state=state,
    )
    await broker.controller.host.submit(lambda _: Decision((record,), None))


async def fence(broker: Broker, node_id: NodeId) -> None:
    """It does not answer any more."""
    await broker.controller.host.submit(lambda metadata: controller.fence_node(metadata, node_id))


def coordinate_elsewhere(broker: Broker, node_id: NodeId = SECOND) -> None:
    """From now on the node coordinates everything, as far as the broker knows."""
    for name in ("group_coordinator", "transaction_coordinator"):
        vars(broker)[name] = lambda _name: node_id
