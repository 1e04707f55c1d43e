"""FindCoordinator: what clients ask before they can start."""

import enum

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse

from goqueue.server.kafka.context import Context
from goqueue.wire.messages import build


class KeyType(enum.IntEnum):
    """What is to be coordinated; the protocol's numbers."""

    GROUP = 0
    TRANSACTION = 1


async def handle_find_coordinator(
    context: Context, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """This node coordinates everything."""
    found = tuple(_coordinator(context, request.key_type, key) for key in request.coordinator_keys)
    return build(FindCoordinatorResponse, coordinators=found)


def _coordinator(context: Context, key_type: int, key: str) -> Coordinator:
    if key_type not in list(KeyType):
        return build(
            Coordinator,
            key=key,
            node_id=-1,
            port=-1,
            error_code=ErrorCode.invalid_request,
            error_message=f"key type {key_type}: groups (0) and transactions (1) have coordinators",
        )
    return build(
        Coordinator,
        key=key,
        node_id=context.broker.config.node_id,
        host=context.address.host,
        port=context.address.port,
        error_message=None,
    )
