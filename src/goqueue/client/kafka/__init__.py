"""A small Kafka client that waits: for Spark's tasks, jobs and tools.

    with KafkaClient("localhost:9092") as client:
        fetched = client.fetch("orders", 0, offset=0)

It moves whole record batches and leaves what is in them to its callers.  One thread uses it at a
time.  `QueueWorker` works a queue off in the same way.
"""

from goqueue.client.kafka.client import KafkaClient
from goqueue.client.kafka.errors import KafkaRefused
from goqueue.client.kafka.queue_worker import QueueWorker
from goqueue.client.kafka.reading import EARLIEST, LATEST
from goqueue.client.kafka.results import (
    Fetched,
    Node,
    OffsetFound,
    Produced,
    ProducerId,
    TopicLayout,
    TopicPartition,
)
from goqueue.client.kafka.share_session import Received

__all__ = [
    "EARLIEST",
    "LATEST",
    "Fetched",
    "KafkaClient",
    "KafkaRefused",
    "Node",
    "OffsetFound",
    "Produced",
    "ProducerId",
    "QueueWorker",
    "Received",
    "TopicLayout",
    "TopicPartition",
]
