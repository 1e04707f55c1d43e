"""May this principal do that?

    an administrator may do everything;
    else a matching ACL that denies decides;
    else a role, or a matching ACL that allows;
    else no.

To allow READ, WRITE, DELETE or ALTER allows DESCRIBE; ALTER_CONFIGS allows DESCRIBE_CONFIGS.  What
is asked again is answered from a cache, until an ACL or a role changes.

The broker's own topics (`__audit`) are no part of "every topic": a role, a wildcard or a prefix
does not allow them, only an ACL with the whole name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from goqueue.model.names import is_internal
from goqueue.security.acls import (
    ANY_HOST,
    ANY_NAME,
    ANY_USER,
    Acl,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from goqueue.security.principal import Principal
from goqueue.security.roles import ADMIN, GRANTS

ANSWERS_MAX: Final = 50_000

_DESCRIBERS: Final = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
# Which operations an allowing ACL may be for, to allow what is asked.
_ALLOWED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    each: frozenset({each, Operation.ALL}) for each in Operation
} | {
    Operation.DESCRIBE: frozenset({Operation.DESCRIBE, Operation.ALL} | _DESCRIBERS),
    Operation.DESCRIBE_CONFIGS: frozenset(
        {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}
    ),
}

_Question = tuple[str, tuple[str, ...], str, Operation, ResourceType, str]


class Authorizer:
    def __init__(self, super_users: Iterable[str] = ()) -> None:
        """`super_users` are principals (`User:ops`) that may do everything, whatever is set."""
        self._super_users = frozenset(super_users)
        self._literal: dict[tuple[ResourceType, str], set[Acl]] = {}
        self._prefixed: dict[tuple[ResourceType, str], set[Acl]] = {}
        self._roles: dict[str, tuple[str, ...]] = {}  # by user
        self._answers: dict[_Question, bool] = {}

    # --- what is set ------------------------------------------------------------------------------

    def add(self, acl: Acl) -> None:
        self._table(acl).setdefault((acl.resource_type, acl.name), set()).add(acl)
        self._answers.clear()

    def remove(self, acl: Acl) -> None:
        table, key = self._table(acl), (acl.resource_type, acl.name)
        found = table.get(key, set())
        found.discard(acl)
        if not found:
            table.pop(key, None)
        self._answers.clear()

    def set_roles(self, user: str, roles: tuple[str, ...]) -> None:
        if roles:
            self._roles[user] = roles
        else:
            self._roles.pop(user, None)
        self._answers.clear()

    def _table(self, acl: Acl) -> dict[tuple[ResourceType, str], set[Acl]]:
        return self._prefixed if acl.pattern is Pattern.PREFIXED else self._literal

    # --- what is asked ----------------------------------------------------------------------------

    def is_admin(self, principal: Principal) -> bool:
        return str(principal) in self._super_users or ADMIN in self._roles_of(principal)

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        question = (principal.name, principal.roles, host, operation, resource_type, name)
        answer = self._answers.get(question)
        if answer is None:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[question] = self._decide(
                principal, host, operation, resource_type, name
            )
        return answer

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there may be a resource of that type to which it may do that."""
        if self.is_admin(principal):
            return True
        own = [
            acl
            for table in (self._literal, self._prefixed)
            for (kind, _), acls in table.items()
            if kind is resource_type
            for acl in acls
            if _is_for(acl, principal, host)
        ]
        denied = [
            acl
            for acl in own
            if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL)
        ]
        if any(_covers_all(acl) for acl in denied):
            return False
        if self._grants(principal, operation, resource_type):
            return True
        wanted = _ALLOWED_BY[operation]
        return any(
            not any(_covers(denial, acl) for denial in denied)
            for acl in own
            if acl.permission is Permission.ALLOW and acl.operation in wanted
        )

    def _decide(
        self,
        principal: Principal,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if self.is_admin(principal):
            return True
        allowing, is_allowed = _ALLOWED_BY[operation], False
        is_hidden = resource_type is ResourceType.TOPIC and is_internal(name)
        for acl in self._matching(resource_type, name):
            if not _is_for(acl, principal, host):
                continue
            if acl.permission is Permission.DENY:
                if acl.operation in (operation, Operation.ALL):
                    return False
            elif acl.operation in allowing and (not is_hidden or acl.name == name):
                is_allowed = True
        return is_allowed or (not is_hidden and self._grants(principal, operation, resource_type))

    def _matching(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        yield from self._literal.get((resource_type, name), ())
        yield from self._literal.get((resource_type, ANY_NAME), ())
        if self._prefixed:
            for length in range(1, len(name) + 1):
                yield from self._prefixed.get((resource_type, name[:length]), ())

    def _grants(
        self, principal: Principal, operation: Operation, resource_type: ResourceType
    ) -> bool:
        return any((resource_type, operation) in GRANTS[role] for role in self._roles_of(principal))

    def _roles_of(self, principal: Principal) -> tuple[str, ...]:
        own = self._roles.get(principal.name, ())
        return own + principal.roles if principal.roles else own


def _covers_all(acl: Acl) -> bool:
    return acl.pattern is Pattern.LITERAL and acl.name == ANY_NAME


def _covers(denial: Acl, acl: Acl) -> bool:
    """Whether the one denies all that the other allows."""
    if denial.pattern is Pattern.PREFIXED:
        return not _covers_all(acl) and acl.name.startswith(denial.name)
    return acl.pattern is Pattern.LITERAL and acl.name == denial.name


def _is_for(acl: Acl, principal: Principal, host: str) -> bool:
    return acl.principal in (ANY_USER, str(principal)) and acl.host in (ANY_HOST, host)
