"""Which copies between nodes are slowed down, and to which rate.

    leader.replication.throttled.rate      what a node sends
    follower.replication.throttled.rate    what a node receives
    goqueue.reassignment.throttled.rate    both, for replicas that a reassignment adds

The first two are Kafka's, for one node or for all, and hold for the replicas that a topic lists
(`leader.` and `follower.replication.throttled.replicas`).  They go before the third.  A replica in
sync is never slowed down: commits wait for it.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from goqueue.cluster.metadata import Metadata
from goqueue.model.errors import InvalidRequest, InvalidSetting
from goqueue.model.ids import NodeId

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
REASSIGNMENT_RATE: Final = "goqueue.reassignment.throttled.rate"
ALL_NODES: Final = ""  # whose settings every node has that has none of its own

Side = Literal["leader", "follower"]

_MEANINGS: Final = {
    LEADER_RATE: "Bytes a second that this node sends to the throttled replicas of all topics.",
    FOLLOWER_RATE: "Bytes a second that the throttled replicas on this node copy together.",
    REASSIGNMENT_RATE: "Bytes a second that a node sends to replicas, or receives for replicas,"
    " which a reassignment adds; unset when no replica moves any more.",
}


class Throttle(msgspec.Struct, frozen=True):
    name: str  # of the setting
    bytes_per_second: int


class Copy(msgspec.Struct, frozen=True):
    """A replica that copies and is not in sync."""

    is_reassigned: bool = False  # it is being added
    throttle: Throttle | None = None


def find_copy(metadata: Metadata, topic: str, index: int, follower: NodeId, side: Side) -> Copy:
    """How the follower copies, as the node at that side of it sees it."""
    found = metadata.find(topic)
    state = None if found is None else metadata.partitions.find(found.topic_id, index)
    if found is None or state is None or follower in state.isr:
        return Copy()
    node = state.leader if side == "leader" else follower
    name = LEADER_RATE if side == "leader" else FOLLOWER_RATE
    listed = (
        found.settings.leader_replication_throttled_replicas
        if side == "leader"
        else found.settings.follower_replication_throttled_replicas
    )
    rate = None
    if "*" in listed or f"{index}:{node}" in listed:
        rate = rate_of(metadata, name, node)
    is_reassigned = follower in state.adding
    if rate is None and is_reassigned:
        name, rate = REASSIGNMENT_RATE, rate_of(metadata, REASSIGNMENT_RATE, node)
    return Copy(is_reassigned, None if rate is None else Throttle(name, rate))


def rate_of(metadata: Metadata, name: str, node_id: NodeId | None = None) -> int | None:
    """None: as fast as it goes."""
    configs = metadata.broker_configs
    own = {} if node_id is None else configs.get(str(node_id), {})
    text = own.get(name, configs.get(ALL_NODES, {}).get(name))
    return None if text is None else int(text)


def broker_setting_meanings() -> Mapping[str, str]:
    """The settings of nodes that can be changed while they run."""
    return _MEANINGS


def check_broker_setting(name: str, text: str) -> str:
    """Raises `InvalidSetting`, and as Kafka `InvalidRequest` for what cannot be changed so."""
    if name not in _MEANINGS:
        raise InvalidRequest(
            f"{name} cannot be changed while the server runs: change its configuration file,"
            f" environment or flags, and start it again. These can: {', '.join(_MEANINGS)}"
        )
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise InvalidSetting(f"{name}={text!r}: must be a whole number of bytes a second")
    return str(int(text))
