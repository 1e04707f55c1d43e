"""The features of this version: each has levels, so that nodes of two versions can work together.

A node registers the levels that it supports.  Nobody raises a level by itself: until an operator
does (`goqueue cluster upgrade`), every node can be put back to the version before.  A level that
was never raised is the feature's initial one.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from goqueue.cluster.metadata import FeatureRange, Metadata, Node
from goqueue.model.errors import PolicyViolation


class Feature(msgspec.Struct, frozen=True):
    min_level: int
    max_level: int
    initial_level: int
    meaning: str


DELAYS: Final = "delay.version"
DELAYS_LEVEL: Final = 2
SECURITY: Final = "security.version"
SECURITY_LEVEL: Final = 2

FEATURES: Final[Mapping[str, Feature]] = {
    DELAYS: Feature(
        1, DELAYS_LEVEL, 1, "2: delayed messages and schedules, once all nodes support them."
    ),
    "goqueue.version": Feature(1, 1, 1, "What nodes write to the metadata and ask of each other."),
    "group.version": Feature(1, 1, 1, "The consumer protocol of KIP-848."),
    "metadata.version": Feature(
        25, 25, 25, "What Kafka's tools may take for granted of metadata: 4.0-IV3."
    ),
    SECURITY: Feature(
        1,
        SECURITY_LEVEL,
        1,
        "2: users, API keys, ACLs, quotas and tenants, once all nodes support them.",
    ),
    "share.version": Feature(1, 1, 1, "Share groups, KIP-932."),
    "transaction.version": Feature(
        1, 2, 2, "KIP-890: an epoch a transaction, and Produce adds partitions."
    ),
}


def supported_features() -> dict[str, FeatureRange]:
    """By this version, as a node registers them."""
    return {name: FeatureRange(each.min_level, each.max_level) for name, each in FEATURES.items()}


def level_in_use(name: str, finalized: Mapping[str, int]) -> int:
    """The level that the nodes agreed on, or the initial one."""
    return finalized.get(name, FEATURES[name].initial_level)


def common_levels(metadata: Metadata, name: str) -> FeatureRange:
    """That all nodes support; empty (the lowest above the highest) when they have none in common.

    A node of a version that did not register features supports what it was then: the initial level.
    """
    ranges = [_levels_of(node, name) for node in metadata.nodes.members]
    own = FEATURES[name]
    return FeatureRange(
        max([own.min_level, *(each.min_level for each in ranges)]),
        min([own.max_level, *(each.max_level for each in ranges)]),
    )


def demand_support(metadata: Metadata, name: str, level: int) -> None:
    """Raise `PolicyViolation` while a node is of a version that does not know what comes next.

    For what begins by its first use, and not by an operator's word.
    """
    behind = [
        str(node.node_id)
        for node in metadata.nodes.members
        if _levels_of(node, name).max_level < level
    ]
    if behind:
        raise PolicyViolation(
            f"node {', '.join(behind)} is of a version that does not support {name} {level}:"
            " upgrade it first"
        )


def highest_levels(metadata: Metadata) -> dict[str, int]:
    """To which each feature can be raised; those that are there already are left out."""
    found = {name: common_levels(metadata, name) for name in FEATURES}
    return {
        name: levels.max_level
        for name, levels in found.items()
        if levels.min_level <= levels.max_level
        and all(name in node.features for node in metadata.nodes.members)
        and metadata.features.get(name, 0) < levels.max_level
        and level_in_use(name, metadata.features) <= levels.max_level
    }


def _levels_of(node: Node, name: str) -> FeatureRange:
    initial = FEATURES[name].initial_level
    return node.features.get(name, FeatureRange(initial, initial))
