"""What a list shows to whoever asks for it: what it may describe."""

from collections.abc import Callable, Mapping
from typing import Any

from goqueue.broker.security.permissions import Permissions
from goqueue.security import ANONYMOUS, Operation, ResourceType
from goqueue.server.http.security.identity import PRINCIPAL_KEY, client_host


def visible(
    scope: Mapping[str, Any], permissions: Permissions, resource_type: ResourceType
) -> Callable[[str], bool]:
    """A request that another node passed on was asked by somebody whom that node knows."""
    if not permissions.is_asked:
        return lambda _: True
    principal = scope.get(PRINCIPAL_KEY, ANONYMOUS)
    host = client_host(scope)
    return lambda name: permissions.allows(principal, host, Operation.DESCRIBE, resource_type, name)
