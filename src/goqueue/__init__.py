"""A durable message queue: Kafka's protocol and HTTP over one log.

    async with goqueue.embedded() as broker:      # a whole broker in this process
        await broker.publish("orders", "hello")

    with goqueue.Client("http://localhost:8080") as client:
        client.publish("orders", [goqueue.Message("hello")])

What is named here is imported when it is first used: `import goqueue` itself is quick.
"""

TYPE_CHECKING = False  # type checkers take it for true: `typing` alone would double the import
if TYPE_CHECKING:
    from typing import Any

    from goqueue._version import __version__
    from goqueue.client import AsyncClient, Client, ClientError, Message, Received
    from goqueue.embedding import embedded
    from goqueue.model.errors import GoQueueError

__all__ = [
    "AsyncClient",
    "Client",
    "ClientError",
    "GoQueueError",
    "Message",
    "Received",
    "__version__",
    "embedded",
]

_HOMES = {
    "AsyncClient": "goqueue.client",
    "Client": "goqueue.client",
    "ClientError": "goqueue.client",
    "GoQueueError": "goqueue.model.errors",
    "Message": "goqueue.client",
    "Received": "goqueue.client",
    "__version__": "goqueue._version",
    "embedded": "goqueue.embedding",
}


def __getattr__(name: str) -> "Any":
    from importlib import import_module

    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module 'goqueue' has no attribute {name!r}") from None
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
