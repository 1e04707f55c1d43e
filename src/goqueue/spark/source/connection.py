"""How readers reach the brokers."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from goqueue.client.kafka import KafkaClient, KafkaLogin

CLIENT_ID: Final = "goqueue-spark"


def connect(bootstrap: str, timeout_ms: int, login: "KafkaLogin") -> "KafkaClient":
    """The client that readers use."""
    from goqueue.client.kafka import KafkaClient

    return KafkaClient(bootstrap, client_id=CLIENT_ID, timeout_s=timeout_ms / 1000, login=login)
