"""A cluster without sockets: answers from a script, and remembers what it was asked."""

from collections.abc import Iterable
from typing import Any

from goqueue.client.kafka import Node
from goqueue.client.kafka.deadlines import Deadline
from goqueue.model.ids import TopicPartition
from goqueue.wire.apis import ApiKey

FIRST, SECOND = Node("first", 1), Node("second", 2)


class FakeCluster:
    """Partition 0 of each topic is led by `FIRST`, the others by `SECOND`."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[Node | None, ApiKey, Any]] = []
        self.coordinated: list[tuple[int, str]] = []
        self.forgotten = 0

    def ask_for(self, node: Node | None, api_key: ApiKey, request: Any, _deadline: Deadline) -> Any:
        self.asked.append((node, api_key, request))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def leaders(
        self, wanted: Iterable[TopicPartition], _deadline: Deadline
    ) -> dict[Node, list[TopicPartition]]:
        shares: dict[Node, list[TopicPartition]] = {}
        for each in wanted:
            shares.setdefault(SECOND if each.partition else FIRST, []).append(each)
        return shares

    def coordinator(self, key_type: int, key: str, _deadline: Deadline) -> Node:
        self.coordinated.append((key_type, key))
        return SECOND

    def nodes(self, _deadline: Deadline) -> dict[int, Node]:
        return {7: FIRST}

    def forget(self) -> None:
        self.forgotten += 1

    @property
    def requests(self) -> list[Any]:
        return [request for _, _, request in self.asked]
