"""A client for the HTTP listener: `Client` for programs that wait, `AsyncClient` for event loops.

    with Client("http://localhost:8080") as client:
        client.publish("orders", [Message("hello", key="k")])
        for message in client.read("orders"):
            ...

The classes come with the HTTP library when they are first named; errors and results do not.
"""

from typing import TYPE_CHECKING, Any

from goqueue.api.schedules import PreviewInput, ScheduledMessage, ScheduleInput
from goqueue.client.errors import (
    BadAnswer,
    BadLogin,
    BadRequest,
    ClientError,
    Conflict,
    Forbidden,
    NoAnswer,
    NoFreeConnection,
    NotFound,
    OffsetOutOfRange,
    Overloaded,
    PartitionNotFound,
    PublishIncomplete,
    ReceiptExpired,
    ReceiptInTransaction,
    ReceiptMalformed,
    ReceiptUnknown,
    Refused,
    ServerFailed,
    ServerUnreachable,
    TooLarge,
    TooManyInFlight,
    TopicExists,
    TopicNotFound,
    Unauthorized,
)
from goqueue.client.http.messages import Message, Received
from goqueue.client.http.queue_results import DeadLetter, Delivery, Settled, Waiting

if TYPE_CHECKING:
    from goqueue.client.http.async_client import AsyncClient
    from goqueue.client.http.client import Client
    from goqueue.client.http.group_reading import GroupReading, QueueReading

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "BadLogin",
    "BadRequest",
    "Client",
    "ClientError",
    "Conflict",
    "DeadLetter",
    "Delivery",
    "Forbidden",
    "GroupReading",
    "Message",
    "NoAnswer",
    "NoFreeConnection",
    "NotFound",
    "OffsetOutOfRange",
    "Overloaded",
    "PartitionNotFound",
    "PreviewInput",
    "PublishIncomplete",
    "QueueReading",
    "ReceiptExpired",
    "ReceiptInTransaction",
    "ReceiptMalformed",
    "ReceiptUnknown",
    "Received",
    "Refused",
    "ScheduleInput",
    "ScheduledMessage",
    "ServerFailed",
    "ServerUnreachable",
    "Settled",
    "TooLarge",
    "TooManyInFlight",
    "TopicExists",
    "TopicNotFound",
    "Unauthorized",
    "Waiting",
]


def __getattr__(name: str) -> Any:
    if name == "Client":
        from goqueue.client.http.client import Client

        return Client
    if name == "AsyncClient":
        from goqueue.client.http.async_client import AsyncClient

        return AsyncClient
    if name in ("GroupReading", "QueueReading"):
        from goqueue.client.http import group_reading

        return getattr(group_reading, name)
    raise AttributeError(name)
