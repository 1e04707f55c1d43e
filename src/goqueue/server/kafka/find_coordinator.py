"""FindCoordinator: what clients ask before they can start."""

import enum

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId
from goqueue.security import Operation
from goqueue.server.kafka.context import Context
from goqueue.server.kafka.errors import coordinator_code
from goqueue.server.kafka.nodes import address_of
from goqueue.wire.messages import build


class KeyType(enum.IntEnum):
    """What is to be coordinated; the protocol's numbers."""

    GROUP = 0
    TRANSACTION = 1


async def handle_find_coordinator(
    context: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    found = tuple(_coordinator(context, request.key_type, key) for key in request.coordinator_keys)
    return build(FindCoordinatorResponse, coordinators=found)


def _coordinator(context: Context, key_type: int, key: str) -> Coordinator:
    if key_type not in list(KeyType):
        text = f"key type {key_type}: groups (0) and transactions (1) have coordinators"
        return _refuse(key, ErrorCode.invalid_request, text)
    try:
        node_id = _find(context, key_type, key)
    except GoQueueError as error:
        return _refuse(key, coordinator_code(error), str(error))
    node = context.broker.metadata.nodes.get(node_id)
    address = None if node is None or not node.is_live else address_of(context, node)
    if address is None:
        text = f"node {node_id}, the coordinator, does not answer"
        return _refuse(key, ErrorCode.coordinator_not_available, text)
    return build(
        Coordinator,
        key=key,
        node_id=node_id,
        host=address.host,
        port=address.port,
        error_message=None,
    )


def _find(context: Context, key_type: int, key: str) -> NodeId:
    if key_type == KeyType.GROUP:
        context.access.demand_group(Operation.DESCRIBE, key)
        return context.broker.group_coordinator(key)
    context.access.demand_transactional_id(Operation.DESCRIBE, key)
    return context.broker.transaction_coordinator(key)


def _refuse(key: str, code: ErrorCode, message: str) -> Coordinator:
    return build(Coordinator, key=key, node_id=-1, port=-1, error_code=code, error_message=message)
