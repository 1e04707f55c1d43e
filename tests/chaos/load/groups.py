"""Members of a consumer group, classic or KIP-848's, and somebody who asks what is committed.

falling   an offset asked for after a commit was confirmed, or after a higher one was seen, is lower
unseen    a message that no member of the group ever got
"""

import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.chaos.cluster import Cluster
from tests.chaos.load.load import Load

COMMIT_EVERY: Final = 50
ANSWER_S: Final = 5.0

Protocol = Literal["classic", "consumer"]


@dataclass
class OffsetFact:
    """Somebody learnt that this offset is committed."""

    partition: int
    offset: int
    asked_at: float
    known_at: float
    who: str


@dataclass
class GroupHistory:
    group: str
    facts: list[OffsetFact] = field(default_factory=list)
    seen: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, partition: int, offset: int, asked_at: float, who: str) -> None:
        with self.lock:
            self.facts.append(OffsetFact(partition, offset, asked_at, time.monotonic(), who))

    def anomalies(self) -> list[str]:
        by_partition: defaultdict[int, list[OffsetFact]] = defaultdict(list)
        for each in self.facts:
            by_partition[each.partition].append(each)
        return [text for facts in by_partition.values() for text in self._fallen(facts)]

    def _fallen(self, facts: list[OffsetFact]) -> list[str]:
        """Each fact is compared with the highest that was known before it was asked for."""
        found = []
        known = sorted(facts, key=lambda each: each.known_at)
        highest, position = None, 0
        for fact in sorted(facts, key=lambda each: each.asked_at):
            while position < len(known) and known[position].known_at < fact.asked_at:
                if highest is None or known[position].offset > highest.offset:
                    highest = known[position]
                position += 1
            if highest is not None and fact.offset < highest.offset:
                found.append(f"{self.group}: {fact} after {highest}")
        return found

    def unseen(self, acked: list[dict[int, int]]) -> list[tuple[int, int]]:
        with self.lock:
            return [
                (partition, offset)
                for partition, offsets in enumerate(acked)
                for offset in offsets.keys() - self.seen[partition]
            ]


class Member(Load):
    def __init__(
        self,
        number: int,
        protocol: Protocol,
        cluster: Cluster,
        topic: str,
        history: GroupHistory,
        histories: Path,
    ) -> None:
        super().__init__(f"{history.group}-{number}", histories)
        self._history = history
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": history.group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "socket.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000}
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic], on_revoke=self._forget)
        self._positions: dict[int, int] = {}
        self._since = 0
        self.problems: Counter[str] = Counter()

    def _forget(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Not committed: whoever gets them reads them again."""
        for each in partitions:
            self._positions.pop(each.partition, None)

    def step(self) -> None:
        for message in self._consumer.consume(100, 0.2):
            if message.error() is not None:
                self.problems[message.error().name()] += 1
                continue
            partition, offset = message.partition() or 0, message.offset() or 0
            with self._history.lock:
                self._history.seen[partition].add(offset)
            self._positions[partition] = offset + 1
            self._since += 1
        if self._since >= COMMIT_EVERY:
            self._since = 0
            self._commit()

    def _commit(self) -> None:
        assigned = {each.partition for each in self._consumer.assignment()}
        topic = next((each.topic for each in self._consumer.assignment()), "")
        offsets = [
            TopicPartition(topic, index, offset)
            for index, offset in self._positions.items()
            if index in assigned
        ]
        if not offsets:
            return
        asked_at = time.monotonic()
        try:
            done = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self.problems[error.args[0].name()] += 1
            self.file.note("not committed", problem=str(error))
            return
        for each in done or []:
            if each.error is None:
                self._history.note(each.partition, each.offset, asked_at, self.name)
                self.file.note(
                    "committed", partition=each.partition, offset=each.offset, asked_at=asked_at
                )

    def close(self) -> None:
        self._consumer.close()
        self.file.note("problems", **self.problems)


class OffsetObserver(Load):
    """Asks again and again what a group has committed."""

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int, history: GroupHistory, histories: Path
    ) -> None:
        super().__init__(f"{history.group}-observer", histories)
        self._history = history
        self._places = [TopicPartition(topic, index) for index in range(partitions)]
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": history.group,
                "enable.auto.commit": False,
                "socket.timeout.ms": 5_000,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def step(self) -> None:
        asked_at = time.monotonic()
        try:
            found = self._consumer.committed(self._places, ANSWER_S)
        except KafkaException as error:
            self.file.note("unknown", problem=str(error))
            self.pause(0.1)
            return
        for each in found:
            if each.error is None:  # an offset below 0: none is committed
                self._history.note(each.partition, max(each.offset, -1), asked_at, self.name)
                self.file.note(
                    "told", partition=each.partition, offset=each.offset, asked_at=asked_at
                )
        self.pause(0.3)

    def close(self) -> None:
        self._consumer.close()
