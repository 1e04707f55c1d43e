"""Nodes of two versions: levels rise when all nodes support them, and older nodes are refused."""

import msgspec
import pytest

from goqueue.broker.cluster import membership
from goqueue.broker.metadata import registration
from goqueue.cluster import Metadata, MetadataRecord
from goqueue.cluster.controller.security import change_security
from goqueue.cluster.errors import FeatureRefused
from goqueue.cluster.features import (
    DELAYS,
    DELAYS_LEVEL,
    FEATURES,
    SECURITY,
    SECURITY_LEVEL,
    Feature,
    demand_support,
    highest_levels,
    supported_features,
)
from goqueue.cluster.metadata import ApiKeysUsed, FeatureRange
from goqueue.model.errors import PolicyViolation
from goqueue.model.ids import NodeId
from goqueue.model.machine import Decision
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.test_failover import three_nodes

NAME = "goqueue.version"


@pytest.fixture
def version(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What nodes that start from now on support: level 2 is new."""
    newest = {"level": 2}
    monkeypatch.setattr(
        "goqueue.cluster.features.FEATURES", {**FEATURES, NAME: Feature(1, 2, 1, "")}
    )
    monkeypatch.setattr(
        "goqueue.cluster.controller.features.FEATURES", {**FEATURES, NAME: Feature(1, 2, 1, "")}
    )

    def supported() -> dict[str, FeatureRange]:
        return supported_features() | {NAME: FeatureRange(1, newest["level"])}

    monkeypatch.setattr(membership, "supported_features", supported)
    monkeypatch.setattr(registration, "supported_features", supported)
    return newest


def restart(nodes: ClusterWorld, host: str) -> None:
    number = NodeId({"b": 2, "c": 3}[host])
    before = nodes.controller.metadata.nodes[number].epoch
    nodes.stop(host)
    nodes.start(host)
    nodes.world.run_until(
        lambda: (
            nodes.controller.metadata.nodes[number].epoch > before
            and nodes.state_of(number) == "active"
        ),
        limit_s=30,
    )


def test_a_level_rises_once_all_nodes_support_it_and_then_older_nodes_are_refused(
    version: dict[str, int],
):
    version["level"] = 1
    with three_nodes() as nodes:
        nodes.world.run(nodes.controller.controller.host.submit(_upgraded_voter))
        version["level"] = 2
        restart(nodes, "b")
        with pytest.raises(FeatureRefused, match="node 3 supports 1 to 1"):
            nodes.world.run(nodes.brokers["b"].raise_features({NAME: 2}))
        restart(nodes, "c")
        assert highest_levels(nodes.controller.metadata)[NAME] == 2
        nodes.world.run(nodes.brokers["b"].raise_features({NAME: 2}))
        assert nodes.controller.metadata.features[NAME] == 2
        with pytest.raises(FeatureRefused, match="does not go back"):
            nodes.world.run(nodes.controller.raise_features({NAME: 1}))
        version["level"] = 1
        nodes.stop("c")
        nodes.start("c")
        nodes.world.run_until(lambda: "c" in nodes.problems, limit_s=30)
        assert "Install a version there" in str(nodes.problems["c"])
        version["level"] = 2
        nodes.world.run_until(lambda: nodes.state_of(3) == "active", limit_s=30)


def _upgraded_voter(metadata: Metadata) -> Decision[MetadataRecord, None]:
    """As if node 1 had been restarted with the new version."""
    node = metadata.nodes[NodeId(1)]
    features = {**node.features, NAME: FeatureRange(1, 2)}
    return Decision((msgspec.structs.replace(node, features=features).record,), None)


def test_unknown_features_are_refused_and_a_dry_run_changes_nothing():
    with three_nodes() as nodes:
        with pytest.raises(FeatureRefused, match="there is no feature x"):
            nodes.world.run(nodes.brokers["b"].raise_features({"x": 1}))
        with pytest.raises(FeatureRefused, match="supports 1 to 2"):
            nodes.world.run(nodes.brokers["b"].raise_features({"transaction.version": 3}))
        levels = highest_levels(nodes.controller.metadata)
        assert levels["transaction.version"] == 2
        nodes.world.run(nodes.brokers["b"].raise_features(levels, validate_only=True))
        assert not nodes.controller.metadata.features
        nodes.world.run(nodes.brokers["b"].raise_features(levels))
        assert highest_levels(nodes.controller.metadata) == {}


@pytest.mark.parametrize(("feature", "level"), [(DELAYS, DELAYS_LEVEL), (SECURITY, SECURITY_LEVEL)])
def test_what_begins_by_its_first_use_begins_once_all_nodes_know_it(feature: str, level: int):
    with three_nodes() as nodes:
        metadata = nodes.controller.metadata
        demand_support(metadata, feature, level)

        def put_back(metadata: Metadata) -> Decision[MetadataRecord, None]:
            """As if node 3 were of the version before."""
            node = metadata.nodes[NodeId(3)]
            features = {name: each for name, each in node.features.items() if name != feature}
            return Decision((msgspec.structs.replace(node, features=features).record,), None)

        nodes.world.run(nodes.controller.controller.host.submit(put_back))
        with pytest.raises(PolicyViolation, match="node 3 is of a version that does not support"):
            demand_support(nodes.controller.metadata, feature, level)
        if feature == SECURITY:
            with pytest.raises(PolicyViolation, match="upgrade it first"):
                change_security(nodes.controller.metadata, [ApiKeysUsed({"x": 1})])
