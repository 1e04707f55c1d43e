"""The cluster: its nodes, how it is doing, and where partitions are."""

from typing import Annotated, Final, Literal

import msgspec
from litestar.params import Parameter

from goqueue.api.cluster import (
    ClusterHealthBody,
    ClusterNode,
    ClusterState,
    LocalReplica,
    NodeList,
    PartitionPlace,
    PartitionPlaceInfo,
    TopicPlaceList,
    TopicPlaces,
)
from goqueue.broker import Broker
from goqueue.broker.cluster.log_sizes import SizesByNode
from goqueue.cluster import NO_LEADER, Metadata, Node, PartitionState, Topic
from goqueue.cluster.health import health_of, offline_replicas
from goqueue.cluster.replication import Follower, Leader, Offline, Role
from goqueue.model.ids import NodeId
from goqueue.model.names import topic_name
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.family import Routes, query
from goqueue.server.http.routes.messages import PartitionPath
from goqueue.server.http.routes.topics import TopicPath

PLACES_PAGE_MAX: Final = 500  # topics

routes = Routes("cluster")


@routes.get("/cluster/state", "Show the cluster")
async def get_state(broker: TheBroker) -> ClusterState:
    """The nodes, who decides the metadata, and how all partitions together are doing."""
    return ClusterState(
        broker.cluster_id,
        _controller_id(broker),
        broker.controller.term,
        dict(broker.metadata.features),
        _health(broker),
        _nodes(broker),
    )


@routes.get("/cluster/health", "Say how the cluster is doing")
async def get_cluster_health(broker: TheBroker) -> ClusterHealthBody:
    """As the metadata says. Whether this server itself is ready is `/readyz`."""
    return _health(broker)


@routes.get("/cluster/nodes", "List the nodes")
async def list_nodes(broker: TheBroker) -> NodeList:
    return NodeList(_nodes(broker))


@routes.get("/cluster/topics", "List where partitions are")
async def list_places(
    broker: TheBroker,
    limit: Annotated[int, Parameter(ge=1, le=PLACES_PAGE_MAX)] = PLACES_PAGE_MAX,
    after: Annotated[str | None, query("Only names behind this one.", max_length=249)] = None,
    sizes: Annotated[bool, query("Ask each node how many bytes it has of them.")] = False,
) -> TopicPlaceList:
    found = [topic for topic in broker.topics() if after is None or topic.name > after]
    page = found[:limit]
    by_node = await broker.log_sizes.by_node() if sizes else {}
    return TopicPlaceList(
        [_places(broker.metadata, topic, by_node) for topic in page],
        page[-1].name if len(found) > limit else None,
    )


@routes.get("/cluster/partition/{topic:str}/{partition:int}/info", "Show where a partition is", 404)
async def get_partition_info(
    broker: TheBroker, topic: TopicPath, partition: PartitionPath
) -> PartitionPlaceInfo:
    """With what this node has of it; its log is opened for that."""
    found = broker.topic(topic_name(topic))
    found.check_partition(partition)
    state = broker.metadata.partition(found.topic_id, partition)
    return PartitionPlaceInfo(
        found.name,
        str(found.topic_id),
        _place(broker.metadata, partition, state),
        await _local(broker, found, partition, state),
    )


def _controller_id(broker: Broker) -> int | None:
    """None: another node has taken the term, and it is not known which; or nobody has."""
    return broker.cluster.controller_id


def _health(broker: Broker) -> ClusterHealthBody:
    found = health_of(broker.metadata)
    return ClusterHealthBody(
        status=found.status,
        node_id=broker.config.node_id,
        is_controller=broker.controller.is_leading,
        controller_id=_controller_id(broker),
        **msgspec.structs.asdict(found),
    )


def _nodes(broker: Broker) -> list[ClusterNode]:
    found = sorted(broker.metadata.nodes.values(), key=lambda node: node.node_id)
    return [cluster_node(broker, node) for node in found]


def cluster_node(broker: Broker, node: Node) -> ClusterNode:
    count = broker.metadata.partitions
    return ClusterNode(
        node_id=node.node_id,
        state=node.state,
        is_controller=node.node_id == _controller_id(broker),
        addresses={name: str(address) for name, address in node.addresses.items()},
        rack=node.rack,
        machine=node.machine,
        leaders=count.leader_count(node.node_id),
        replicas=count.replica_count(node.node_id),
        epoch=node.epoch,
        incarnation=node.incarnation,
        directory_id=node.directory_id,
    )


def _places(metadata: Metadata, topic: Topic, by_node: SizesByNode) -> TopicPlaces:
    states = metadata.partitions.of(topic.topic_id)
    return TopicPlaces(
        topic.name,
        str(topic.topic_id),
        topic.replication_factor,
        topic.settings.min_insync_replicas,
        [
            _place(metadata, index, state, _sizes(by_node, topic, index))
            for index, state in enumerate(states)
        ],
    )


def _sizes(by_node: SizesByNode, topic: Topic, index: int) -> dict[str, int]:
    found = {node: sizes.get(topic.name, {}).get(index) for node, sizes in by_node.items()}
    return {str(node): size for node, size in sorted(found.items()) if size is not None}


def _place(
    metadata: Metadata, index: int, state: PartitionState, sizes: dict[str, int] | None = None
) -> PartitionPlace:
    return PartitionPlace(
        partition=index,
        leader=None if state.leader == NO_LEADER else state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        isr=list(state.isr),
        elr=list(state.elr),
        offline=list(offline_replicas(state, metadata.nodes)),
        adding=list(state.adding),
        removing=list(state.removing),
        sizes=sizes or {},
    )


async def _local(
    broker: Broker, topic: Topic, index: int, state: PartitionState
) -> LocalReplica | None:
    node_id = NodeId(broker.config.node_id)
    if node_id not in state.replicas:
        return None
    partition = await broker.partitions.get(topic, index)
    log = partition.log
    return LocalReplica(
        node_id,
        _role(partition.role),
        partition.role.reason if isinstance(partition.role, Offline) else "",
        log.start_offset,
        log.high_watermark,
        log.end_offset,
        log.size,
    )


def _role(role: Role) -> Literal["leader", "follower", "offline"]:
    match role:
        case Leader():
            return "leader"
        case Follower():
            return "follower"
        case Offline():
            return "offline"
