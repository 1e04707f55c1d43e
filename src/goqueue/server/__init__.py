"""One node: its Kafka and HTTP listeners, checks, logs and metrics.

What is named here is imported when it is first used: its parts are tested without the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goqueue.server.handles import fit_to_handles
    from goqueue.server.http.routes.message_bodies import extra_headers
    from goqueue.server.server import Node, running_node
    from goqueue.server.server_log import ServerLog

__all__ = ["Node", "ServerLog", "extra_headers", "fit_to_handles", "running_node"]

_HOMES = {
    "Node": "server",
    "ServerLog": "server_log",
    "extra_headers": "http.routes.message_bodies",
    "fit_to_handles": "handles",
    "running_node": "server",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
