"""A small Kafka client that waits: for Spark's tasks, jobs and tools.

    with KafkaClient("localhost:9092") as client:
        fetched = client.fetch("orders", 0, offset=0)

It moves whole record batches and leaves what is in them to its callers.  One thread uses it at a
time.  `QueueWorker` consumes a queue in the same way.

What talks to brokers comes with the protocol's classes when it is first named; results do not.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from goqueue.client.kafka.login import (
    CONFIG_VARIABLE,
    LOGIN_SETTINGS,
    NO_LOGIN,
    KafkaLogin,
    default_login,
    parse_login,
    read_login,
)
from goqueue.client.kafka.results import (
    EARLIEST,
    LATEST,
    Fetched,
    Node,
    OffsetFound,
    Produced,
    ProducerId,
    TopicLayout,
)
from goqueue.model.ids import TopicPartition
from goqueue.wire.kio_import import load_kio

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from goqueue.client.kafka.client import KafkaClient
    from goqueue.client.kafka.errors import KafkaRefused
    from goqueue.client.kafka.queue_worker import QueueWorker
    from goqueue.client.kafka.reading import next_offset
    from goqueue.client.kafka.share_session import Received

__all__ = [
    "CONFIG_VARIABLE",
    "EARLIEST",
    "LATEST",
    "LOGIN_SETTINGS",
    "NO_LOGIN",
    "ErrorCode",
    "Fetched",
    "KafkaClient",
    "KafkaLogin",
    "KafkaRefused",
    "Node",
    "OffsetFound",
    "Produced",
    "ProducerId",
    "QueueWorker",
    "Received",
    "TopicLayout",
    "TopicPartition",
    "default_login",
    "next_offset",
    "parse_login",
    "read_login",
]

_LATER = {
    "ErrorCode": "errors",
    "KafkaClient": "client",
    "KafkaRefused": "errors",
    "QueueWorker": "queue_worker",
    "Received": "share_session",
    "next_offset": "reading",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        load_kio()
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(name)
