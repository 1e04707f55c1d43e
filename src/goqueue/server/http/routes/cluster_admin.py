"""What operators change in the cluster: nodes that are emptied or go, leaders, replicas.

Any node may be asked: it passes on what only the controller decides.
"""

from collections.abc import Iterator
from typing import Annotated

from litestar.params import JSONBody, PathParameter

from goqueue.api.cluster import (
    ClusterNode,
    ElectedLeader,
    LeaderElection,
    LeaderElectionResult,
    MovingPartition,
    NodeRemoved,
    PartitionMove,
    Reassignment,
    ReassignmentStatus,
)
from goqueue.broker import Broker
from goqueue.broker.cluster.forwarding import NodeChange
from goqueue.cluster import NO_LEADER, Topic
from goqueue.cluster.controller import ElectionType
from goqueue.cluster.errors import ElectionNotNeeded
from goqueue.model.errors import GoQueueError, InvalidRequest
from goqueue.model.ids import NodeId
from goqueue.model.names import topic_name
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.cluster import cluster_node
from goqueue.server.http.routes.family import Routes

routes = Routes("cluster")

NodePath = Annotated[int, PathParameter(description="Number of a node.", ge=0)]


@routes.post("/cluster/nodes/{node_id:int}/drain", "Have other nodes lead", 404)
async def drain_node(broker: TheBroker, node_id: NodePath) -> ClusterNode:
    """It leads nothing that another replica in sync can lead, and gets no new replicas, until it is
    undrained or starts again.  It keeps its replicas.
    """
    return await _change_node(broker, NodeId(node_id), "drain")


@routes.post("/cluster/nodes/{node_id:int}/undrain", "Let a node lead again", 404)
async def undrain_node(broker: TheBroker, node_id: NodePath) -> ClusterNode:
    return await _change_node(broker, NodeId(node_id), "undrain")


async def _change_node(broker: Broker, node_id: NodeId, change: NodeChange) -> ClusterNode:
    await broker.change_node(node_id, change)
    return cluster_node(broker, broker.metadata.nodes.at(node_id))


@routes.delete("/cluster/nodes/{node_id:int}", "Remove a node for good", 404, 409)
async def remove_cluster_node(broker: TheBroker, node_id: NodePath) -> NodeRemoved:
    """Refused while it has replicas: reassign them first.  Its number is not used again."""
    await broker.change_node(NodeId(node_id), "remove")
    return NodeRemoved(node_id)


@routes.post("/cluster/leader-election", "Elect leaders", 404)
async def elect_leaders(broker: TheBroker, data: JSONBody[LeaderElection]) -> LeaderElectionResult:
    if data.partition is not None and data.topic is None:
        raise InvalidRequest("partition without topic: say which topic it is of")
    topics = broker.topics() if data.topic is None else [broker.topic(topic_name(data.topic))]
    election_type: ElectionType = "unclean" if data.allow_unclean else "preferred"
    results = [
        result
        for topic in topics
        for index in _indexes(topic, data.partition)
        if (result := await _elect(broker, topic, index, election_type)) is not None
    ]
    return LeaderElectionResult(results)


def _indexes(topic: Topic, partition: int | None) -> range:
    if partition is None:
        return range(topic.partitions)
    topic.check_partition(partition)
    return range(partition, partition + 1)


async def _elect(
    broker: Broker, topic: Topic, index: int, election_type: ElectionType
) -> ElectedLeader | None:
    """None: there was no need."""
    problem = ""
    try:
        await broker.elect_leader(topic.topic_id, index, election_type)
    except ElectionNotNeeded:
        return None
    except GoQueueError as error:
        problem = str(error)
    leader = broker.metadata.partition(topic.topic_id, index).leader
    return ElectedLeader(topic.name, index, None if leader == NO_LEADER else leader, problem)


@routes.post("/admin/reassignment", "Move replicas to other nodes", 404, status_code=202)
async def start_reassignment(broker: TheBroker, data: JSONBody[Reassignment]) -> ReassignmentStatus:
    """Replicas are added, copy what is there, and then the others go. `GET` shows what moves."""
    moves = [(broker.topic(topic_name(each.topic)), each) for each in data.partitions]
    for topic, move in moves:
        topic.check_partition(move.partition)
    return ReassignmentStatus([await _move(broker, topic, move) for topic, move in moves])


async def _move(broker: Broker, topic: Topic, move: PartitionMove) -> MovingPartition:
    problem, wanted = "", move.new_replicas
    replicas = None if wanted is None else [NodeId(each) for each in wanted]
    try:
        await broker.reassign_partition(topic.topic_id, move.partition, replicas)
    except GoQueueError as error:
        problem = str(error)
    return _moving(broker, topic, move.partition, problem)


@routes.get("/admin/reassignment", "List replicas that move")
async def list_reassignments(broker: TheBroker) -> ReassignmentStatus:
    return ReassignmentStatus(list(_all_moving(broker)))


def _all_moving(broker: Broker) -> Iterator[MovingPartition]:
    for topic in broker.topics():
        for index, state in enumerate(broker.metadata.partitions.of(topic.topic_id)):
            if state.adding or state.removing:
                yield _moving(broker, topic, index)


def _moving(broker: Broker, topic: Topic, index: int, problem: str = "") -> MovingPartition:
    state = broker.metadata.partition(topic.topic_id, index)
    return MovingPartition(
        topic.name, index, list(state.replicas), list(state.adding), list(state.removing), problem
    )
