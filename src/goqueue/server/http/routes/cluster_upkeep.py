"""What has happened in the cluster, which levels its features have, and restarts of nodes."""

from typing import Annotated

from litestar.params import JSONBody

from goqueue.api.balance import (
    EventBody,
    EventList,
    FeatureBody,
    FeatureList,
    FeatureUpgrade,
    NodeFeatures,
    NodeRestarts,
)
from goqueue.broker import Broker
from goqueue.broker.cluster.events import EVENTS_MAX, NotedEvent
from goqueue.cluster.features import FEATURES, common_levels, highest_levels, level_in_use
from goqueue.model.errors import NodeUnreachable, PolicyViolation
from goqueue.model.ids import NodeId
from goqueue.model.times import time_text
from goqueue.runtime.service_manager import is_supervised, stop_soon
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.cluster_admin import NodePath
from goqueue.server.http.routes.family import Routes, query

routes = Routes("cluster")


@routes.get("/cluster/events", "List what happened in the cluster")
async def list_events(
    broker: TheBroker,
    after: Annotated[int, query("Only events behind this number.", ge=0)] = 0,
    limit: Annotated[int, query("At most so many, the newest.", ge=1, le=EVENTS_MAX)] = 100,
) -> EventList:
    """Elections, changes of in-sync replicas, nodes that came or went, moves: as the node that is
    asked has seen them since it started.
    """
    return EventList([_event(each) for each in broker.events.after(after)[-limit:]])


def _event(noted: NotedEvent) -> EventBody:
    event = noted.event
    return EventBody(
        noted.number,
        time_text(noted.at),
        event.kind,
        event.text,
        event.node_id,
        event.topic,
        event.partition,
    )


@routes.get("/cluster/features", "Show the levels of features")
async def get_features(broker: TheBroker) -> FeatureList:
    """A level is raised when all nodes have a version that supports it."""
    return _features(broker)


@routes.post("/cluster/features", "Raise the levels of features", 409, status_code=200)
async def raise_features(broker: TheBroker, data: JSONBody[FeatureUpgrade]) -> FeatureList:
    """Afterwards, nodes of older versions are refused: there is no way back."""
    levels = highest_levels(broker.metadata) if data.levels is None else data.levels
    await broker.raise_features(levels, validate_only=data.dry_run)
    return _features(broker)


def _features(broker: Broker) -> FeatureList:
    metadata = broker.metadata
    features = []
    for name, feature in FEATURES.items():
        common, level = common_levels(metadata, name), level_in_use(name, metadata.features)
        is_finalized = name in metadata.features
        features.append(
            FeatureBody(
                name, level, is_finalized, common.min_level, common.max_level, feature.meaning
            )
        )
    nodes = [
        NodeFeatures(
            node.node_id,
            node.state,
            {name: (each.min_level, each.max_level) for name, each in node.features.items()},
        )
        for node in sorted(metadata.nodes.members, key=lambda node: node.node_id)
    ]
    return FeatureList(features, nodes)


@routes.post("/cluster/nodes/{node_id:int}/restart", "Restart a node", 404, 422, status_code=202)
async def restart_node(broker: TheBroker, node_id: NodePath) -> NodeRestarts:
    """It hands over what it leads, stops, and is started again by its supervisor
    (`goqueue server --nodes`). Without one it is refused.
    """
    node = broker.metadata.nodes.at(NodeId(node_id))
    if node_id != broker.node_id:
        raise NodeUnreachable(f"node {node_id} is not reached")
    if not is_supervised():
        raise PolicyViolation(
            f"nobody would start node {node_id} again: it was not started by"
            " `goqueue server --nodes`. Restart it where it runs"
        )
    stop_soon()
    return NodeRestarts(node_id, node.epoch)
