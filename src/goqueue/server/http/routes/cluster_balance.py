"""Replicas are spread anew, over all nodes, onto a new one, or away from one that goes."""

from collections.abc import Mapping

from litestar.params import JSONBody

from goqueue.api.balance import PlannedLoad, PlannedPartition, Rebalance, RebalanceResult
from goqueue.api.cluster import PartitionMove, Reassignment
from goqueue.cluster import Metadata
from goqueue.cluster.balance import NodeLoad, Plan, plan, plan_onto, plan_replacement
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import NodeId, TopicIdPartition
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.cluster_admin import reassign
from goqueue.server.http.routes.family import Routes

routes = Routes("cluster")


@routes.post("/admin/rebalance", "Spread replicas anew", 404)
async def rebalance(broker: TheBroker, data: JSONBody[Rebalance]) -> RebalanceResult:
    """Few moves, after which nodes have about as many replicas, leaders and bytes as each other,
    and replicas are on different machines and racks. They are begun as by
    `POST /admin/reassignment`.
    """
    found = _plan(broker.metadata, await broker.log_sizes.by_partition(), data)
    moves = [
        PlannedPartition(
            broker.metadata.topic_by_id(each.topic_id).name,
            each.partition,
            list(each.before),
            list(each.after),
            each.size,
        )
        for each in found.moves
    ]
    begun = None
    if moves and not data.dry_run:
        wanted = [PartitionMove(each.topic, each.partition, each.new_replicas) for each in moves]
        begun = await reassign(broker, Reassignment(wanted, data.throttle_bytes_per_sec))
    loads = [_load(node_id, load, found.after[node_id]) for node_id, load in found.before.items()]
    return RebalanceResult(moves, loads, sum(each.bytes for each in moves), begun)


def _plan(metadata: Metadata, sizes: Mapping[TopicIdPartition, int], data: Rebalance) -> Plan:
    if (data.replace is None) is not (data.with_ is None):
        raise InvalidRequest("replace and with are said together")
    chosen = [each is not None for each in (data.replace, data.onto, data.without)]
    if sum(chosen) > 1:
        raise InvalidRequest("say one of replace, onto and without")
    if data.replace is not None and data.with_ is not None:
        return plan_replacement(metadata, sizes, NodeId(data.replace), NodeId(data.with_))
    if data.onto is not None:
        return plan_onto(metadata, sizes, NodeId(data.onto))
    leaving = [NodeId(each) for each in data.without or ()]
    for node_id in leaving:
        metadata.nodes.at(node_id)
    return plan(metadata, sizes, leaving)


def _load(node_id: NodeId, before: NodeLoad, after: NodeLoad) -> PlannedLoad:
    return PlannedLoad(
        node_id,
        before.replicas,
        after.replicas,
        before.leaders,
        after.leaders,
        before.size,
        after.size,
    )
