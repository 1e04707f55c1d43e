"""A client for the HTTP listener: `Client` for programs that wait, `AsyncClient` for event loops.

    with Client("http://localhost:8080") as client:
        client.publish("orders", [Message("hello", key="k")])
        for message in client.read("orders"):
            ...

The classes come with the HTTP library when they are first named; errors and results do not.
"""

from typing import TYPE_CHECKING, Any

from goqueue.client.errors import ClientError
from goqueue.client.messages import Message, Received

if TYPE_CHECKING:
    from goqueue.client.async_client import AsyncClient
    from goqueue.client.client import Client
    from goqueue.client.group_reading import GroupReading, QueueReading

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "GroupReading",
    "Message",
    "QueueReading",
    "Received",
]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from goqueue.client.client import Client

        return Client
    if name == "AsyncClient":
        from goqueue.client.async_client import AsyncClient

        return AsyncClient
    if name in ("GroupReading", "QueueReading"):
        from goqueue.client import group_reading

        return getattr(group_reading, name)
    raise AttributeError(name)
