"""Features have levels, so that nodes of two versions can work together while one is replaced.

A node registers the levels that it can work with.  The level in force rises only when somebody says
so, and only to what all nodes support: until then every node can be put back to its old version.
"""

from collections.abc import Mapping

from goqueue.cluster.errors import FeatureRefused
from goqueue.cluster.metadata import FeatureLevel, FeatureRange, Metadata, MetadataRecord
from goqueue.model.ids import NodeId
from goqueue.model.machine import Decision


def set_feature_level(metadata: Metadata, name: str, level: int) -> Decision[MetadataRecord, None]:
    before = metadata.features.get(name, 0)
    if level == before:
        return Decision((), None)
    if level < before:
        raise FeatureRefused(f"feature {name} has level {before}, and does not go back to {level}")
    for node in metadata.nodes.members:
        _check(node.node_id, node.features, name, level)
    return Decision((FeatureLevel(name, level),), None)


def check_features(
    metadata: Metadata, node_id: NodeId, supported: Mapping[str, FeatureRange]
) -> None:
    """Raises `FeatureRefused` for a node that cannot work with a level that is in force."""
    for name, level in metadata.features.items():
        _check(node_id, supported, name, level)


def _check(node_id: NodeId, supported: Mapping[str, FeatureRange], name: str, level: int) -> None:
    found = supported.get(name)
    if found is None:
        raise FeatureRefused(f"feature {name} at level {level}: node {node_id} does not know it")
    if not found.min_level <= level <= found.max_level:
        raise FeatureRefused(
            f"feature {name} at level {level}: node {node_id} supports {found.min_level} to"
            f" {found.max_level}"
        )
