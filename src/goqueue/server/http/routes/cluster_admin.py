"""What operators change in the cluster: nodes that are emptied or go, leaders, replicas.

Any node may be asked: it passes on what only the controller decides.
"""

from typing import Annotated, Final, Literal

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
    ReplicaCopy,
)
from goqueue.broker import Broker
from goqueue.broker.cluster.forwarding import NodeChange
from goqueue.broker.cluster.reassignments import Move
from goqueue.broker.replicas import FollowerLag
from goqueue.cluster import NO_LEADER, Topic
from goqueue.cluster.controller import ElectionType
from goqueue.cluster.errors import ElectionNotNeeded
from goqueue.cluster.throttles import ALL_NODES, REASSIGNMENT_RATE, rate_of
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


# --- reassignment ---------------------------------------------------------------------------------

THROTTLE_BYTES_PER_SEC: Final = 10 * 1024 * 1024


@routes.post("/admin/reassignment", "Move replicas to other nodes", 404, status_code=202)
async def start_reassignment(broker: TheBroker, data: JSONBody[Reassignment]) -> ReassignmentStatus:
    """Replicas are added, copy what is there, and then the others go. `GET` shows what moves."""
    return await reassign(broker, data)


async def reassign(broker: Broker, data: Reassignment) -> ReassignmentStatus:
    if not data.partitions and data.throttle_bytes_per_sec is None:
        raise InvalidRequest("say which partitions move, or another throttle_bytes_per_sec")
    moves = [(broker.topic(topic_name(each.topic)), each) for each in data.partitions]
    for topic, move in moves:
        topic.check_partition(move.partition)
    await _set_throttle(broker, data.throttle_bytes_per_sec)
    found = [await _move(broker, topic, move) for topic, move in moves]
    return _status(broker, await _measure(broker, found))


async def _set_throttle(broker: Broker, wanted: int | None) -> None:
    present = rate_of(broker.metadata, REASSIGNMENT_RATE)
    if wanted is None:
        wanted = THROTTLE_BYTES_PER_SEC if present is None else present
    text = str(wanted) if wanted else None
    await broker.change_broker_config(ALL_NODES, {REASSIGNMENT_RATE: text})


async def _measure(broker: Broker, found: list[tuple[Move, str]]) -> list[MovingPartition]:
    measured = await broker.reassignments.measure([move for move, _ in found])
    problems = [problem for _, problem in found]
    return [_moving(move, problem) for move, problem in zip(measured, problems, strict=True)]


async def _move(broker: Broker, topic: Topic, move: PartitionMove) -> tuple[Move, str]:
    problem, wanted = "", move.new_replicas
    replicas = None if wanted is None else [NodeId(each) for each in wanted]
    try:
        await broker.reassign_partition(topic.topic_id, move.partition, replicas)
    except GoQueueError as error:
        problem = str(error)
    state = broker.metadata.partition(topic.topic_id, move.partition)
    return Move(topic, move.partition, state), problem


@routes.get("/admin/reassignment", "List replicas that move")
async def list_reassignments(broker: TheBroker) -> ReassignmentStatus:
    """With how far they have come, as the leaders of the partitions measure it."""
    found = await broker.reassignments.under_way()
    return _status(broker, [_moving(each) for each in found])


@routes.delete("/admin/reassignment", "Cancel all moves of replicas")
async def cancel_reassignments(broker: TheBroker) -> ReassignmentStatus:
    """The replicas that were there stay, and those that were added go."""
    moves = await broker.reassignments.under_way()
    wanted = [(each.topic, PartitionMove(each.topic.name, each.partition)) for each in moves]
    found = [await _move(broker, topic, move) for topic, move in wanted]
    return _status(broker, await _measure(broker, found))


def _moving(move: Move, problem: str = "") -> MovingPartition:
    state = move.state
    return MovingPartition(
        topic=move.topic.name,
        partition=move.partition,
        state=_move_state(move, problem),
        leader=None if state.leader == NO_LEADER else state.leader,
        replicas=list(state.replicas),
        adding=list(state.adding),
        removing=list(state.removing),
        copies=[_copy(each) for each in move.copies],
        error=problem or move.problem,
    )


def _move_state(
    move: Move, problem: str
) -> Literal["pending", "catching_up", "completed", "failed"]:
    if problem:
        return "failed"
    if not move.state.adding and not move.state.removing:
        return "completed"
    has_begun = any(each.bytes_left < each.bytes_in_all for each in move.copies)
    return "catching_up" if has_begun else "pending"


def _copy(lag: FollowerLag) -> ReplicaCopy:
    return ReplicaCopy(
        node_id=lag.node_id,
        offset=lag.offset,
        end_offset=lag.end_offset,
        offsets_left=lag.offsets_left,
        bytes_left=lag.bytes_left,
        bytes_total=lag.bytes_in_all,
        bytes_per_sec=round(lag.bytes_per_second, 1),
        seconds_left=_seconds_left(lag),
    )


def _seconds_left(lag: FollowerLag) -> float | None:
    if not lag.bytes_left:
        return 0.0
    rate = lag.bytes_per_second
    return round(lag.bytes_left / rate, 1) if rate > 0 else None


def _status(broker: Broker, partitions: list[MovingPartition]) -> ReassignmentStatus:
    copies = [copy for each in partitions for copy in each.copies]
    times = [copy.seconds_left for copy in copies]
    known = [each for each in times if each is not None]
    return ReassignmentStatus(
        partitions=partitions,
        throttle_bytes_per_sec=rate_of(broker.metadata, REASSIGNMENT_RATE),
        bytes_left=sum(copy.bytes_left for copy in copies),
        bytes_total=sum(copy.bytes_total for copy in copies),
        bytes_per_sec=round(sum(copy.bytes_per_sec for copy in copies), 1),
        seconds_left=max(known, default=0.0) if len(known) == len(times) else None,
    )
