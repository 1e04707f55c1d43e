"""Kafka's access control lists: who may do what to which topics, groups and so on.

allow or deny │ principal │ host │ operation │ resource type, name, pattern
allow         │ User:app  │ *    │ READ      │ TOPIC  orders      literal
allow         │ User:app  │ *    │ ALL       │ TOPIC  orders.     prefixed
deny          │ User:*    │ *    │ DELETE    │ TOPIC  *           literal: every topic
"""

import enum
from typing import Final

import msgspec

from goqueue.model.errors import InvalidRequest

ANY_NAME: Final = "*"
ANY_HOST: Final = "*"
ANY_USER: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"  # of the one resource of type CLUSTER
NAME_BYTES_MAX: Final = 249


class ResourceType(enum.IntEnum):
    """The protocol's numbers.  Delegation tokens and users as resources are not served."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Pattern(enum.IntEnum):
    """The protocol's numbers; ANY and MATCH are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(enum.IntEnum):
    """The protocol's numbers; ANY is for filters."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Permission(enum.IntEnum):
    """The protocol's numbers; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


# What each type of resource knows, beside ALL.
OPERATIONS: Final[dict[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: frozenset(
        {
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.GROUP: frozenset(
        {
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        }
    ),
    ResourceType.CLUSTER: frozenset(
        {
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        }
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset({Operation.WRITE, Operation.DESCRIBE}),
}


class Acl(msgspec.Struct, frozen=True, gc=False):
    resource_type: ResourceType
    name: str
    pattern: Pattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def check(self) -> "Acl":
        """Itself; raises `InvalidRequest` if it is nothing that can be kept."""
        if self.resource_type not in OPERATIONS:
            raise InvalidRequest(
                "an ACL is for a topic, a group, a transactional id or the cluster"
            )
        if self.pattern not in (Pattern.LITERAL, Pattern.PREFIXED):
            raise InvalidRequest("the pattern of an ACL is literal or prefixed")
        if self.permission not in (Permission.ALLOW, Permission.DENY):
            raise InvalidRequest("an ACL allows or denies")
        allowed = OPERATIONS[self.resource_type]
        if self.operation is not Operation.ALL and self.operation not in allowed:
            names = ", ".join(sorted(each.name for each in allowed))
            kind = self.resource_type.name.lower()
            raise InvalidRequest(f"{self.operation.name} is not for a {kind}, which has {names}")
        if not self.name or len(self.name.encode()) > NAME_BYTES_MAX:
            raise InvalidRequest(f"the resource's name has 1 to {NAME_BYTES_MAX} bytes")
        if self.resource_type is ResourceType.CLUSTER and self.name != CLUSTER_NAME:
            raise InvalidRequest(f"the only resource of type cluster is {CLUSTER_NAME!r}")
        kind, colon, user = self.principal.partition(":")
        if kind != "User" or not colon or not user or len(user.encode()) > NAME_BYTES_MAX:
            raise InvalidRequest(
                f"the principal {self.principal[:80]!r} is not User:NAME or User:*"
            )
        if not self.host or len(self.host) > NAME_BYTES_MAX:
            raise InvalidRequest("the host is an address, or * for all")
        return self


class AclFilter(msgspec.Struct, frozen=True):
    """Which ACLs are meant; None, or ANY, is all."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: Pattern = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (Pattern.ANY, Pattern.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not Pattern.MATCH:
            return self.name == acl.name
        if acl.pattern is Pattern.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, ANY_NAME)
