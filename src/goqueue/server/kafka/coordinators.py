"""Which node coordinates a group or a transactional id.

Handlers of their APIs take the name from here: another node than the coordinator refuses it, and
the client looks for the coordinator again.
"""

from goqueue.broker import Broker
from goqueue.model.errors import NotCoordinator
from goqueue.model.ids import GroupId
from goqueue.server.kafka.group_names import named_group


def coordinated_group(broker: Broker, name: str) -> GroupId:
    """The group, which this node coordinates; raises `InvalidGroupId` or `NotCoordinator`."""
    group_id = named_group(name)
    check_group(broker, group_id)
    return group_id


def check_group(broker: Broker, group_id: GroupId) -> None:
    """Raises `NotCoordinator`."""
    coordinator = broker.group_coordinator(group_id)
    if coordinator != broker.node_id:
        raise NotCoordinator(f"node {coordinator} coordinates group {group_id!r}")


def coordinated_transaction(broker: Broker, transactional_id: str) -> str:
    """The id, whose transactions this node coordinates; raises `NotCoordinator`."""
    coordinator = broker.transaction_coordinator(transactional_id)
    if coordinator != broker.node_id:
        raise NotCoordinator(
            f"node {coordinator} coordinates the transactions of {transactional_id!r}"
        )
    return transactional_id
