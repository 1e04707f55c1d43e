"""Which node each operation belongs to.

HERE           any node can: it is about the metadata, about the node itself, or the broker asks
               the other nodes for what they lead
PARTITION      the leader of the partition that the path names
DEAD_LETTER    the leader of that partition of the topic's dead letters
GROUP          the coordinator of the group that the path names
TRANSACTION    the coordinator of the transactional id, or application, that the path, the query or
               the body names
NODE           the node that the path names
REGISTRY       the node that runs the schema registry
SCHEDULES      the node that runs the schedules
"""

import enum
from collections.abc import Mapping
from typing import Any, Final

from goqueue.broker import Broker
from goqueue.model.errors import GoQueueError, NotLeader
from goqueue.model.ids import NodeId
from goqueue.queue.dead_letter import dead_letter_topic


class Place(enum.Enum):
    HERE = "here"
    PARTITION = "partition"
    DEAD_LETTER = "dead_letter"
    GROUP = "group"
    TRANSACTION = "transaction"
    NODE = "node"
    REGISTRY = "registry"
    SCHEDULES = "schedules"


# By the first words of the paths; a longer path that is listed itself has its own.
FAMILIES: Final = {
    "/admin": Place.HERE,
    "/cluster": Place.HERE,
    "/delay": Place.HERE,
    "/groups": Place.GROUP,
    "/messages": Place.HERE,
    "/priority": Place.HERE,
    "/producers": Place.TRANSACTION,
    "/queues": Place.HERE,
    "/rebalance": Place.HERE,
    "/registry": Place.REGISTRY,
    "/reliability": Place.HERE,
    "/schedules": Place.SCHEDULES,
    "/schemas": Place.REGISTRY,
    "/topics": Place.HERE,
    "/traces": Place.HERE,
    "/transactions": Place.TRANSACTION,
}
PATHS: Final = {
    "/cluster/nodes/{node_id}/restart": Place.NODE,
    "/groups": Place.HERE,
    "/groups/{group}/in-flight": Place.HERE,
    "/groups/{group}/in-flight/extend": Place.HERE,
    "/groups/{group}/in-flight/release": Place.HERE,
    "/groups/{group}/queue": Place.HERE,  # settings are metadata
    "/topics/{topic}/delayed/{partition}/{offset}": Place.PARTITION,
    "/schedules/preview": Place.HERE,
    "/topics/{topic}/dlq/{partition}/{offset}": Place.DEAD_LETTER,
    "/topics/{topic}/partitions/{partition}/compaction": Place.PARTITION,
    "/topics/{topic}/partitions/{partition}/compaction/seal": Place.PARTITION,
    "/topics/{topic}/partitions/{partition}/messages": Place.PARTITION,
    "/topics/{topic}/partitions/{partition}/offsets": Place.PARTITION,
    "/transactions": Place.HERE,
    "/transactions/stats": Place.HERE,
}


PATH_NAMES: Final = frozenset({"transactional_id", "application"})  # of a transaction's place


def place_of(path_template: str) -> Place:
    found = PATHS.get(path_template)
    if found is None:
        found = FAMILIES.get("/" + path_template.split("/", 2)[1], Place.HERE)
    return found


def node_of(broker: Broker, path_template: str, parameters: Mapping[str, Any]) -> NodeId | None:
    """The node that the request belongs to; None when any can carry it out.

    What its body or query names is not looked at: see `transaction_routing`.  Raises `NotLeader`
    while there is no such node.  A topic or partition that is not there is any node's to refuse.
    """
    match place_of(path_template):
        case Place.HERE:
            return None
        case Place.PARTITION:
            return _leader(broker, parameters["topic"], parameters["partition"])
        case Place.DEAD_LETTER:
            return _leader(broker, dead_letter_topic(parameters["topic"]), parameters["partition"])
        case Place.GROUP:
            return broker.group_coordinator(parameters["group"])
        case Place.TRANSACTION:
            name = parameters.get("transactional_id", parameters.get("application"))
            return None if name is None else broker.transaction_coordinator(name)
        case Place.NODE:
            node_id = NodeId(parameters["node_id"])
            return node_id if node_id in broker.metadata.nodes else None
        case Place.REGISTRY:
            return broker.registry_node()
        case Place.SCHEDULES:
            return broker.schedules_node()


def _leader(broker: Broker, name: str, partition: int) -> NodeId | None:
    try:
        topic = broker.topic(name)
        topic.check_partition(partition)
    except GoQueueError:
        return None
    assert broker.others is not None
    try:
        return broker.others.leader(topic, partition)
    except NotLeader as error:
        raise NotLeader(f"{error}: try again in a moment") from error
