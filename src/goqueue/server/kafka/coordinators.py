"""Which node coordinates a group or a transactional id.

Handlers of their APIs take the name from here: another node than the coordinator refuses it, and
the client looks for the coordinator again.
"""

from goqueue.broker import Broker
from goqueue.model.errors import NotCoordinator
from goqueue.model.ids import GroupId
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.group_names import named_group


def coordinated_group(context: Context, name: str, operation: Operation) -> GroupId:
    """The group, which this node coordinates, and to which the client may do that.

    Raises `GroupAccessDenied`, `InvalidGroupId` or `NotCoordinator`.
    """
    context.access.demand_group(operation, name)
    group_id = named_group(name)
    check_group(context.broker, group_id)
    return group_id


def check_group(broker: Broker, group_id: GroupId) -> None:
    """Raises `NotCoordinator`."""
    coordinator = broker.group_coordinator(group_id)
    if coordinator != broker.node_id:
        raise NotCoordinator(f"node {coordinator} coordinates group {group_id!r}")
    _check_current(broker)


def _check_current(broker: Broker) -> None:
    if not broker.cluster.is_current:
        raise NotCoordinator("this node was away, and another one may coordinate by now: ask again")


def coordinated_transaction(
    context: Context, transactional_id: str, operation: Operation = Operation.WRITE
) -> str:
    """The id, whose transactions this node coordinates, and to which the client may do that.

    Raises `TransactionalIdAccessDenied` or `NotCoordinator`.
    """
    context.access.demand_transactional_id(operation, transactional_id)
    broker = context.broker
    coordinator = broker.transaction_coordinator(transactional_id)
    if coordinator != broker.node_id:
        raise NotCoordinator(
            f"node {coordinator} coordinates the transactions of {transactional_id!r}"
        )
    _check_current(broker)
    return transactional_id
