"""Jobs in a queue, over HTTP, at any node: publishers and workers that ack, nack, or forget.

lost            published, acknowledged as published, and never acked by a worker
delivered late  asked for after its ack was confirmed
double ack      two deliveries of one message whose acks were both confirmed
two holders     delivered while another delivery was neither settled nor timed out
attempt falls   a later delivery with an attempt that is not higher
"""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from goqueue.client import Client, Delivery, Message
from goqueue.client.errors import ClientError, NoAnswer, PublishIncomplete
from tests.chaos.cluster import Cluster
from tests.chaos.load.load import Load

TOPIC: Final = "jobs"
GROUP: Final = "workers"
VISIBILITY_MS: Final = 6_000
MARGIN_S: Final = 0.5  # by which clocks of one machine, and its scheduler, may be off
CALL_S: Final = 8.0

Place = tuple[int, int]  # partition and offset


@dataclass
class Held:
    """One delivery, as its worker knows it."""

    place: Place
    attempt: int
    worker: str
    asked_at: float
    received_at: float
    given_up_at: float = float("inf")  # when its worker first asked to settle it
    acked_at: float = float("inf")  # when its ack was confirmed
    may_be_acked: bool = False  # its ack was asked for, and not answered


@dataclass
class QueueHistory:
    published: dict[Place, int] = field(default_factory=dict)
    uncertain: set[int] = field(default_factory=set)  # numbers that may have been published
    values: dict[Place, int] = field(default_factory=dict)  # as they were delivered
    held: list[Held] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def unfinished(self) -> set[Place]:
        """What must still be acked."""
        with self.lock:
            ended = {e.place for e in self.held if e.acked_at < float("inf") or e.may_be_acked}
            return self.published.keys() - ended

    def anomalies(self, visibility_s: float = VISIBILITY_MS / 1000) -> list[str]:
        by_place: defaultdict[Place, list[Held]] = defaultdict(list)
        for each in self.held:
            by_place[each.place].append(each)
        found = [text for held in by_place.values() for text in _judge(held, visibility_s)]
        wrong = {p for p, number in self.published.items() if self.values.get(p, number) != number}
        found += [f"{place}: another message was delivered" for place in sorted(wrong)]
        return found + [f"{place} is lost" for place in sorted(self.unfinished)]


def _judge(held: list[Held], visibility_s: float) -> Iterator[str]:
    confirmed = [each for each in held if each.acked_at < float("inf")]
    if len(confirmed) > 1:
        yield f"{held[0].place}: double ack, attempts {[each.attempt for each in confirmed]}"
    for first in held:
        for second in held:
            if first is not second:
                yield from _compare(first, second, visibility_s)


def _compare(first: Held, second: Held, visibility_s: float) -> Iterator[str]:
    """`first` and `second` in either order: each pair comes twice."""
    place = first.place
    if second.asked_at > first.acked_at:
        yield f"{place}: attempt {second.attempt} was delivered after the ack of {first.attempt}"
    if first.received_at < second.asked_at and second.attempt <= first.attempt:
        yield f"{place}: attempt {second.attempt} came after attempt {first.attempt}"
    is_first = first.attempt < second.attempt
    overlaps = second.received_at + MARGIN_S < first.asked_at + visibility_s
    if is_first and overlaps and second.received_at < first.given_up_at:
        yield f"{place}: {first.worker} holds it, and {second.worker} has it too"


class AnyNode(Load):
    """Calls go to one node after the other, whoever leads."""

    def __init__(self, name: str, cluster: Cluster, histories: Path) -> None:
        super().__init__(name, histories)
        self.chance = random.Random(name)
        self._clients = [
            Client(each.http, timeout=CALL_S, retries=0) for each in cluster.nodes.values()
        ]

    def client(self) -> Client:
        return self.chance.choice(self._clients)

    def problem(self, error: ClientError) -> None:
        self.file.note("problem", kind=type(error).__name__, problem=str(error))
        self.pause(0.1)

    def close(self) -> None:
        for each in self._clients:
            each.close()


class Publisher(AnyNode):
    def __init__(self, cluster: Cluster, history: QueueHistory, histories: Path) -> None:
        super().__init__("queue-publisher", cluster, histories)
        self._history = history
        self._number = 0

    def step(self) -> None:
        self._number += 1
        number = self._number
        try:
            (result,) = self.client().publish(TOPIC, Message(str(number)))
        except PublishIncomplete as error:
            self.file.note("refused", number=number, problem=str(error))
        except ClientError as error:
            if isinstance(error, NoAnswer):
                self._history.uncertain.add(number)
            self.problem(error)
        else:
            place = result.partition or 0, result.offset or 0
            with self._history.lock:
                self._history.published[place] = number
            self.file.note("published", number=number, place=place)
        self.pause(0.02)


class Worker(AnyNode):
    def __init__(
        self, number: int, cluster: Cluster, history: QueueHistory, histories: Path
    ) -> None:
        super().__init__(f"queue-worker-{number}", cluster, histories)
        self._history = history

    def step(self) -> None:
        asked_at = time.monotonic()
        try:
            deliveries = self.client().receive(
                TOPIC,
                GROUP,
                consumer=self.name,
                max_messages=10,
                wait_ms=500,
                visibility_ms=VISIBILITY_MS,
            )
        except ClientError as error:
            self.problem(error)
            return
        held = [self._hold(each, asked_at) for each in deliveries]
        for delivery, one in zip(deliveries, held, strict=True):
            self._settle(delivery, one)

    def _hold(self, delivery: Delivery, asked_at: float) -> Held:
        place = delivery.partition, delivery.offset
        held = Held(place, delivery.attempt, self.name, asked_at, time.monotonic())
        with self._history.lock:
            self._history.held.append(held)
            self._history.values[place] = int(delivery.value or b"-1")
        self.file.note(
            "received", place=place, attempt=held.attempt, asked_at=asked_at, node=delivery.receipt
        )
        return held

    def _settle(self, delivery: Delivery, held: Held) -> None:
        drawn = self.chance.random()
        if drawn < 0.04:
            return  # forgotten: it comes again when its time is over
        held.given_up_at = time.monotonic()
        settle = self._nack if drawn < 0.15 else self._ack
        try:
            settle(delivery, held)
        except ClientError as error:
            self.file.note("unsettled", place=held.place, attempt=held.attempt)
            self.problem(error)

    def _ack(self, delivery: Delivery, held: Held) -> None:
        held.may_be_acked = True
        (settled,) = self.client().ack(delivery)
        held.may_be_acked = False
        if settled.error is None:
            held.acked_at = time.monotonic()
        self.file.note(
            "acked", place=held.place, attempt=held.attempt, problem=str(settled.error or "")
        )

    def _nack(self, delivery: Delivery, held: Held) -> None:
        (settled,) = self.client().nack(delivery, delay_ms=self.chance.choice((0, 300)))
        self.file.note(
            "nacked", place=held.place, attempt=held.attempt, problem=str(settled.error or "")
        )
