"""The client that readers use."""

from typing import Final

from goqueue.client.kafka import KafkaClient

CLIENT_ID: Final = "goqueue-spark"


def connect(bootstrap: str, timeout_ms: int) -> KafkaClient:
    return KafkaClient(bootstrap, client_id=CLIENT_ID, timeout_s=timeout_ms / 1000)
