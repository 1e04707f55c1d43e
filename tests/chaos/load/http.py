"""Messages published over HTTP at any node, and read again: where they were said to be, once."""

from collections import Counter
from pathlib import Path
from typing import Final

from goqueue.client import Client, Message
from goqueue.client.errors import ClientError, PublishIncomplete
from tests.chaos.cluster import Cluster
from tests.chaos.load.queues import AnyNode

TOPIC: Final = "web"
MESSAGES: Final = 3  # in one request


class HttpPublisher(AnyNode):
    def __init__(self, cluster: Cluster, histories: Path) -> None:
        super().__init__("http-publisher", cluster, histories)
        self.acked: dict[tuple[int, int], str] = {}
        self.problems: Counter[str] = Counter()
        self._number = 0

    def step(self) -> None:
        self._number += 1
        values = [f"{self._number}.{each}" for each in range(MESSAGES)]
        try:
            results = self.client().publish(TOPIC, [Message(each) for each in values])
        except PublishIncomplete as error:
            results = error.results
        except ClientError as error:
            self.problems[type(error).__name__] += 1
            self.problem(error)
            return
        for value, result in zip(values, results, strict=True):
            if result.error is None:
                place = result.partition or 0, result.offset or 0
                assert place not in self.acked, f"two messages at {place}"
                self.acked[place] = value
                self.file.note("published", place=place, value=value)
        self.pause(0.03)

    def check(self, client: Client) -> int:
        """Gives how many were read."""
        found = {
            (each.partition, each.offset): (each.value or b"").decode()
            for each in client.read(TOPIC)
        }
        missing = [place for place, value in self.acked.items() if found.get(place) != value]
        assert not missing, f"published, and not read: {sorted(missing)[:5]}"
        twice = [value for value, count in Counter(found.values()).items() if count > 1]
        assert not twice, f"published once, there twice: {twice[:5]}"
        return len(found)
