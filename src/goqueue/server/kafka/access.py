"""What the client of a connection may do: every handler asks here, before it looks or acts.

`demand_…` raises, in the words of the resource, so that each listener's code for it goes out;
`allows_…` tells, for lists that show only what one may see.  Without `auth.enabled` all of it is
allowed, and `is_enforced` saves the question.
"""

from typing import Final

from goqueue.broker.security.audit import Audit
from goqueue.broker.security.permissions import Permissions
from goqueue.groups import Viewer
from goqueue.model.errors import (
    AccessDenied,
    GroupAccessDenied,
    TopicAccessDenied,
    TransactionalIdAccessDenied,
)
from goqueue.security import CLUSTER_NAME, OPERATIONS, Operation, Principal, ResourceType

_REFUSALS: Final[dict[ResourceType, type[AccessDenied]]] = {
    ResourceType.TOPIC: TopicAccessDenied,
    ResourceType.GROUP: GroupAccessDenied,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAccessDenied,
    ResourceType.CLUSTER: AccessDenied,
}
_ALL_OPERATIONS: Final = {
    kind: sum(1 << each for each in known) for kind, known in OPERATIONS.items()
}
NAME_LENGTH_SHOWN: Final = 249
OPERATIONS_NOT_ASKED: Final = -(2**31)


class Access:
    """Of one principal, from one host, in one request; what is refused is put on record."""

    __slots__ = ("_audit", "_permissions", "_request", "host", "is_enforced", "principal")

    def __init__(
        self,
        permissions: Permissions,
        principal: Principal,
        host: str,
        audit: Audit | None = None,
        request: str = "",
    ) -> None:
        self.is_enforced = permissions.is_asked
        self._permissions = permissions
        self.principal = principal
        self.host = host
        self._audit = audit
        self._request = request

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        return not self.is_enforced or self._permissions.allows(
            self.principal, self.host, operation, resource_type, name
        )

    def demand(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Raises the `AccessDenied` of that type of resource."""
        if self.allows(operation, resource_type, name):
            return
        kind, shown = resource_type.name.lower().replace("_", " "), name[:NAME_LENGTH_SHOWN]
        text = f"{self.principal} lacks {operation.name} on {kind} {shown!r}"
        self._refuse(operation.name, f"{resource_type.name.lower()}:{shown}", text)
        raise _REFUSALS[resource_type](text)

    def _refuse(self, operation: str, resource: str, reason: str) -> None:
        """On record."""
        if self._audit is not None:
            self._audit.note(
                "authorization",
                allowed=False,
                principal=str(self.principal),
                host=self.host,
                listener="kafka",
                request=self._request,
                operation=operation,
                resource=resource,
                reason=reason,
            )

    # --- topics -----------------------------------------------------------------------------------

    def allows_topic(self, operation: Operation, name: str) -> bool:
        return self.allows(operation, ResourceType.TOPIC, name)

    def demand_topic(self, operation: Operation, name: str) -> None:
        self.demand(operation, ResourceType.TOPIC, name)

    def demand_power_over(self, user: str) -> None:
        """Who may alter the cluster may not become an administrator by it."""
        if not self.is_enforced or self._permissions.is_admin(self.principal):
            return
        if self._permissions.is_admin(Principal(user)):
            text = f"{self.principal} is no administrator, and User:{user} is one"
            self._refuse("ALTER", f"user:{user[:NAME_LENGTH_SHOWN]}", text)
            raise AccessDenied(text)

    def demand_creation(self, name: str) -> None:
        """Of a topic: who may create all of them may create this one."""
        if not self.allows_cluster(Operation.CREATE):
            self.demand_topic(Operation.CREATE, name)

    def allows_any_topic(self, operation: Operation) -> bool:
        """Whether there may be a topic to which it may do that."""
        return not self.is_enforced or self._permissions.allows_any(
            self.principal, self.host, operation, ResourceType.TOPIC
        )

    @property
    def viewer(self) -> Viewer | None:
        """For regular expressions, which match what it may see; None: that is everything."""
        return Viewer(self.principal, self.host) if self.is_enforced else None

    # --- groups, transactional ids, the cluster ---------------------------------------------------

    def allows_group(self, operation: Operation, name: str) -> bool:
        return self.allows(operation, ResourceType.GROUP, name)

    def demand_group(self, operation: Operation, name: str) -> None:
        self.demand(operation, ResourceType.GROUP, name)

    def allows_transactional_id(self, operation: Operation, name: str) -> bool:
        return self.allows(operation, ResourceType.TRANSACTIONAL_ID, name)

    def demand_transactional_id(self, operation: Operation, name: str) -> None:
        self.demand(operation, ResourceType.TRANSACTIONAL_ID, name)

    def allows_cluster(self, operation: Operation) -> bool:
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def demand_cluster(self, operation: Operation) -> None:
        self.demand(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    # --- what clients are told they may do --------------------------------------------------------

    def operations(self, resource_type: ResourceType, name: str, *, asked: bool = True) -> int:
        """The protocol has a bit for each operation; tools grey out what is not in them."""
        if not asked:
            return OPERATIONS_NOT_ASKED
        if not self.is_enforced:
            return _ALL_OPERATIONS[resource_type]
        return sum(
            1 << each
            for each in OPERATIONS[resource_type]
            if self.allows(each, resource_type, name)
        )
