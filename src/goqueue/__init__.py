"""A durable message queue: Kafka's protocol and HTTP over one log.

    async with goqueue.embedded() as broker:      # a whole broker in this process
        await broker.publish("orders", "hello")

    with goqueue.Client("http://localhost:8080") as client:
        client.publish("orders", ["hello", {"any": "JSON"}])

What is named here is imported when it is first used: `import goqueue` itself is quick.
"""

TYPE_CHECKING = False  # type checkers take it for true: `typing` alone would double the import
if TYPE_CHECKING:
    from typing import Any

    from goqueue._version import __version__
    from goqueue.client import (
        AsyncClient,
        BadAnswer,
        BadLogin,
        BadRequest,
        Client,
        ClientError,
        Conflict,
        Delivery,
        Forbidden,
        GroupReading,
        Message,
        NoAnswer,
        NoFreeConnection,
        NotFound,
        OffsetOutOfRange,
        Overloaded,
        PartitionNotFound,
        PublishIncomplete,
        QueueReading,
        ReceiptExpired,
        ReceiptInTransaction,
        ReceiptMalformed,
        ReceiptUnknown,
        Received,
        Refused,
        ServerFailed,
        ServerUnreachable,
        Settled,
        TooLarge,
        TooManyInFlight,
        TopicExists,
        TopicNotFound,
        Unauthorized,
    )
    from goqueue.embedding import embedded
    from goqueue.model.errors import GoQueueError

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "BadLogin",
    "BadRequest",
    "Client",
    "ClientError",
    "Conflict",
    "Delivery",
    "Forbidden",
    "GoQueueError",
    "GroupReading",
    "Message",
    "NoAnswer",
    "NoFreeConnection",
    "NotFound",
    "OffsetOutOfRange",
    "Overloaded",
    "PartitionNotFound",
    "PublishIncomplete",
    "QueueReading",
    "ReceiptExpired",
    "ReceiptInTransaction",
    "ReceiptMalformed",
    "ReceiptUnknown",
    "Received",
    "Refused",
    "ServerFailed",
    "ServerUnreachable",
    "Settled",
    "TooLarge",
    "TooManyInFlight",
    "TopicExists",
    "TopicNotFound",
    "Unauthorized",
    "__version__",
    "embedded",
]

_HOMES = {
    **dict.fromkeys(__all__, "goqueue.client"),
    "GoQueueError": "goqueue.model.errors",
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
