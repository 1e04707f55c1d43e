"""Roles: bundles of permissions for whoever does not want to write ACLs.

    admin       everything
    producer    write to every topic, and create it; transactions
    consumer    read every topic, with any group
    readonly    look at everything, and read messages without a group

An ACL that denies goes before a role.
"""

from typing import Final

from goqueue.model.errors import InvalidRequest
from goqueue.security.acls import OPERATIONS, Operation, ResourceType

ADMIN: Final = "admin"

Grant = tuple[ResourceType, Operation]

_LOOK: Final[frozenset[Grant]] = frozenset(
    {(kind, Operation.DESCRIBE) for kind in OPERATIONS}
    | {
        (ResourceType.TOPIC, Operation.DESCRIBE_CONFIGS),
        (ResourceType.GROUP, Operation.DESCRIBE_CONFIGS),
    }
)
GRANTS: Final[dict[str, frozenset[Grant]]] = {
    ADMIN: frozenset((kind, each) for kind, known in OPERATIONS.items() for each in known),
    "producer": frozenset(
        {
            (ResourceType.TOPIC, Operation.WRITE),
            (ResourceType.TOPIC, Operation.CREATE),
            (ResourceType.TOPIC, Operation.DESCRIBE),
            (ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
            (ResourceType.TRANSACTIONAL_ID, Operation.DESCRIBE),
            (ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE),
        }
    ),
    "consumer": frozenset(
        {
            (ResourceType.TOPIC, Operation.READ),
            (ResourceType.TOPIC, Operation.DESCRIBE),
            (ResourceType.GROUP, Operation.READ),
            (ResourceType.GROUP, Operation.DESCRIBE),
        }
    ),
    "readonly": _LOOK | {(ResourceType.TOPIC, Operation.READ)},
}
ROLES: Final = tuple(GRANTS)


def check_roles(roles: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of `ROLES`, each once; raises `InvalidRequest`."""
    for role in roles:
        if role not in GRANTS:
            raise InvalidRequest(f"there is no role {role[:80]!r}: choose of {', '.join(ROLES)}")
    return tuple(role for role in ROLES if role in roles)
