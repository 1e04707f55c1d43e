"""What a list shows to whoever asks for it: what it may describe."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from goqueue.broker.security.permissions import Permissions
from goqueue.groups import Viewer
from goqueue.model.errors import AccessDenied
from goqueue.schemas import SubjectVersion
from goqueue.schemas.errors import SchemaNotFound
from goqueue.security import ANONYMOUS, Operation, Principal, ResourceType
from goqueue.server.http.security.demands import subject_topic
from goqueue.server.http.security.identity import PRINCIPAL_KEY, client_host


def principal_of(scope: Mapping[str, Any]) -> Principal:
    """Who asks; a request that another node passed on has who asked there."""
    found: Principal = scope.get(PRINCIPAL_KEY, ANONYMOUS)
    return found


def visible(
    scope: Mapping[str, Any],
    permissions: Permissions,
    resource_type: ResourceType,
    operation: Operation = Operation.DESCRIBE,
) -> Callable[[str], bool]:
    """A request that another node passed on was asked by somebody whom that node knows."""
    if not permissions.is_asked:
        return lambda _: True
    principal = principal_of(scope)
    host = client_host(scope)
    return lambda name: permissions.allows(principal, host, operation, resource_type, name)


class SchemaVisibility:
    """Schemas by their ids: for who may see a subject that has the schema, as by its version.

    To everybody else there is no such schema.
    """

    def __init__(self, scope: Mapping[str, Any], permissions: Permissions) -> None:
        principal = principal_of(scope)
        self._sees_all = not permissions.is_asked or permissions.is_admin(principal)
        self._may_see = visible(scope, permissions, ResourceType.TOPIC)

    def shows(self, subject: str) -> bool:
        return self._may_see(subject_topic(subject))

    def demand(self, schema_id: int, uses: Iterable[SubjectVersion]) -> list[SubjectVersion]:
        """Those that show it to the caller; raises `SchemaNotFound`."""
        found = [each for each in uses if self.shows(each.subject)]
        if not found and not self._sees_all:
            raise SchemaNotFound(f"no schema has the id {schema_id}")
        return found


def demand_reading(
    scope: Mapping[str, Any], permissions: Permissions, topics: Iterable[str]
) -> None:
    """Of topics that only the handler knows; raises `AccessDenied`."""
    if not permissions.is_asked:
        return
    principal, host = principal_of(scope), client_host(scope)
    for name in sorted(set(topics)):
        if not permissions.allows(principal, host, Operation.READ, ResourceType.TOPIC, name):
            raise AccessDenied(f"{principal} lacks READ on topic {name!r}")


def viewer_of(scope: Mapping[str, Any], permissions: Permissions) -> Viewer | None:
    """For a regular expression of topics that are read for the caller; None: it reads them all."""
    if not permissions.is_asked:
        return None
    return Viewer(principal_of(scope), client_host(scope), reads=True)
