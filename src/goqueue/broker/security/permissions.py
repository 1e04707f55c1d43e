"""May this principal do that?  By the metadata's ACLs and roles, and `auth.super_users`.

Without `auth.enabled`, or without `auth.acls`, everybody may do everything.
"""

from collections.abc import Callable

from goqueue.cluster import Metadata
from goqueue.cluster.metadata import SecurityTable
from goqueue.model.config import AuthConfig
from goqueue.security import (
    CLUSTER_NAME,
    Authorizer,
    Operation,
    Principal,
    ResourceType,
)


class Permissions:
    def __init__(self, config: AuthConfig, metadata: Callable[[], Metadata]) -> None:
        self.is_enforced = config.enabled and config.acls
        self._super_users = [f"User:{name}" for name in config.super_users]
        self._metadata = metadata
        self._table: SecurityTable | None = None
        self._version = -1
        self._authorizer = Authorizer(self._super_users)

    @property
    def authorizer(self) -> Authorizer:
        """By what is committed now."""
        table = self._metadata().security
        if table is not self._table or table.version != self._version:
            self._table, self._version = table, table.version
            self._authorizer = _make(table, self._super_users)
        return self._authorizer

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if not self.is_enforced:
            return True
        return self.authorizer.allows(principal, host, operation, resource_type, name)

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be such a resource to which it may do that."""
        if not self.is_enforced:
            return True
        return self.authorizer.allows_any(principal, host, operation, resource_type)

    def allows_cluster(self, principal: Principal, host: str, operation: Operation) -> bool:
        return self.allows(principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def is_admin(self, principal: Principal) -> bool:
        return not self.is_enforced or self.authorizer.is_admin(principal)

    def explain(self, principal: Principal) -> str:
        """Why what it did was allowed; for the record."""
        if not self.is_enforced:
            return "auth.acls is off"
        if str(principal) in self._super_users:
            return "super user"
        return "role admin" if self.is_admin(principal) else "a role or an ACL"


def _make(table: SecurityTable, super_users: list[str]) -> Authorizer:
    authorizer = Authorizer(super_users)
    for acl in table.acls:
        authorizer.add(acl)
    for user, roles in table.roles.items():
        authorizer.set_roles(user, roles)
    return authorizer
