"""Features have levels, so that nodes of two versions can work together while one is replaced.

A node registers the levels that it can work with.  The level in force rises only when somebody says
so, and only to what all nodes support: until then every node can be put back to its old version.
"""

from collections.abc import Mapping

from goqueue.cluster.errors import FeatureRefused
from goqueue.cluster.features import FEATURES, level_in_use
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


def raise_features(metadata: Metadata, levels: Mapping[str, int]) -> Decision[MetadataRecord, None]:
    """All of them, or none; what is in use already may be asked for.  Raises `FeatureRefused`."""
    records: list[MetadataRecord] = []
    for name, level in levels.items():
        if name not in FEATURES:
            raise FeatureRefused(f"there is no feature {name}; there are {', '.join(FEATURES)}")
        present = level_in_use(name, metadata.features)
        if level < present:
            raise FeatureRefused(
                f"feature {name} is in use at level {present}, and does not go back to {level}"
            )
        knows_all = all(name in node.features for node in metadata.nodes.members)
        if level > present or knows_all:
            records += set_feature_level(metadata, name, level).records
    return Decision(records, None)


def check_features(
    metadata: Metadata, node_id: NodeId, supported: Mapping[str, FeatureRange]
) -> None:
    """Raises `FeatureRefused` for a node that cannot work with a level that is in force."""
    for name, level in metadata.features.items():
        _check(node_id, supported, name, level)


def _check(node_id: NodeId, supported: Mapping[str, FeatureRange], name: str, level: int) -> None:
    found = supported.get(name)
    if found is None:
        raise FeatureRefused(
            f"feature {name} at level {level}: node {node_id} does not know it. Install a newer"
            " version there"
        )
    if not found.min_level <= level <= found.max_level:
        raise FeatureRefused(
            f"feature {name} at level {level}: node {node_id} supports {found.min_level} to"
            f" {found.max_level}. Install a version there that supports it"
        )
