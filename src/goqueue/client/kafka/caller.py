"""How a request is sent: to the right broker, and again within its deadline if need be."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from goqueue.client.errors import ClientError
from goqueue.client.kafka.cluster import Cluster, parse_bootstrap
from goqueue.client.kafka.deadlines import Backoff, Deadline
from goqueue.client.kafka.errors import KafkaRefused, is_retriable
from goqueue.client.kafka.login import KafkaLogin, default_login
from goqueue.model.ids import TopicPartition
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import build_request

T = TypeVar("T")
TIMEOUT_S: Final = 60.0
GROUP: Final = 0
TRANSACTION: Final = 1


class Caller:
    """What all verbs stand on."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "goqueue",
        timeout_s: float = TIMEOUT_S,
        login: KafkaLogin | None = None,
    ) -> None:
        """Without `login`, what `GOQUEUE_KAFKA_CONFIG` says counts."""
        self.login = default_login() if login is None else login
        self._cluster = Cluster(parse_bootstrap(bootstrap), client_id, self.login)
        self._timeout_s = timeout_s

    def _call(
        self,
        api_key: ApiKey,
        read: Callable[[Any], T],
        *,
        coordinator: tuple[int, str] | None = None,
        is_repeatable: bool = True,
        **fields: Any,
    ) -> T:
        """What `read` makes of the answer of any broker, or of a group's or transaction's own.

        It raises the refusals that the answer holds, so that those of the moment are tried again.
        """
        request = build_request(api_key, **fields)

        def attempt(deadline: Deadline) -> T:
            node = None
            if coordinator is not None:
                node = self._cluster.coordinator(*coordinator, deadline)
            return read(self._cluster.ask_for(node, api_key, request, deadline))

        return self._retry(attempt, is_repeatable=is_repeatable)

    def _retry(
        self,
        attempt: Callable[[Deadline], T],
        *,
        is_repeatable: bool = True,
        extra_s: float = 0.0,
    ) -> T:
        """`is_repeatable`: after a lost answer, doing it twice is the same as once."""
        deadline = Deadline(self._timeout_s + extra_s)
        backoff = Backoff(deadline)
        while True:
            try:
                return attempt(deadline)
            except ClientError as error:
                if not is_retriable(error, repeats_unanswered=is_repeatable):
                    raise
                self._cluster.forget()
                if not backoff.wait():
                    raise


def raise_worst(refusals: list[KafkaRefused]) -> None:
    """One that trying again does not help, before one that it may."""
    if refusals:
        raise min(refusals, key=lambda refusal: refusal.is_retriable)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics
