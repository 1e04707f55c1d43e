"""May this principal do that?  By the metadata's ACLs and roles, and `auth.super_users`.

Without `auth.enabled`, or without `auth.acls`, everybody may do everything; but nobody leaves its
tenant's space of names, and nobody else enters it, except for administrators.
"""

from collections.abc import Callable
from typing import Final

from goqueue.cluster import Metadata
from goqueue.cluster.metadata import SecurityTable
from goqueue.groups import Viewer
from goqueue.model.config import AuthConfig
from goqueue.quotas import owner_of
from goqueue.security import (
    ANY_NAME,
    CLUSTER_NAME,
    Authorizer,
    Operation,
    Principal,
    ResourceType,
)

# What a tenant's users may do to the cluster, if they are allowed to: create topics, of their own.
TENANT_OPERATIONS: Final = frozenset({Operation.CREATE, Operation.IDEMPOTENT_WRITE})


class Permissions:
    def __init__(self, config: AuthConfig, metadata: Callable[[], Metadata]) -> None:
        self.is_asked = config.enabled  # without it everybody may do everything
        self.is_enforced = config.enabled and config.acls  # by roles and ACLs
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
        table = self._metadata().security
        has_tenants = table.tenants or table.user_tenants or principal.tenant
        if has_tenants and not self._is_in_its_space(
            table, principal, operation, resource_type, name
        ):
            return False
        return not self.is_enforced or self.authorizer.allows(
            principal, host, operation, resource_type, name
        )

    def _is_in_its_space(
        self,
        table: SecurityTable,
        principal: Principal,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        """A tenant's users reach what is the tenant's; of others, administrators reach it."""
        tenant_id = table.user_tenants.get(principal.name) or principal.tenant
        if resource_type is ResourceType.CLUSTER:
            return not tenant_id or operation in TENANT_OPERATIONS
        if not tenant_id:
            return owner_of(name) not in table.tenants or self.is_admin(principal)
        # A regular expression, which is matched against the tenant's topics only.
        is_any_topic = resource_type is ResourceType.TOPIC and name == ANY_NAME
        return is_any_topic or (name.startswith(f"{tenant_id}.") and name != f"{tenant_id}.")

    def shows(self, viewer: Viewer, topic: str) -> bool:
        """Whether a regular expression of this viewer matches the topic."""
        operation = Operation.READ if viewer.reads else Operation.DESCRIBE
        return not self.is_asked or self.allows(
            viewer.principal, viewer.host, operation, ResourceType.TOPIC, topic
        )

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be such a resource to which it may do that."""
        if not self.is_enforced:
            return True
        return self.authorizer.allows_any(principal, host, operation, resource_type)

    def allows_cluster(self, principal: Principal, host: str, operation: Operation) -> bool:
        return self.allows(principal, host, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def is_tenants(self, principal: Principal) -> bool:
        """Whether it belongs to a tenant."""
        return bool(principal.tenant) or principal.name in self._metadata().security.user_tenants

    def is_admin(self, principal: Principal) -> bool:
        if self.is_tenants(principal):
            return False
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
