"""A worker of a queue that takes and settles messages by the thousand.

    with QueueWorker("localhost:9092", "orders", "billing") as worker:
        while True:
            received = worker.receive(1_000, wait_ms=10_000)
            for some in received:
                for record in some.records():
                    bill(record.value)
            worker.ack(*received)

Where `goqueue.Client` has a receipt for each message, this has whole batches as the log holds them,
and ranges of offsets.  To nack single messages with a reason, use that one.
"""

import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final

from goqueue.client.errors import ClientError
from goqueue.client.kafka.caller import TIMEOUT_S, Caller
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.login import KafkaLogin
from goqueue.client.kafka.results import Node, TopicLayout
from goqueue.client.kafka.share_session import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Received,
    ShareSession,
    Worker,
)
from goqueue.model.ids import TopicPartition

LAYOUT_S_MAX: Final = 60.0  # until partitions that were added are found
LEAVE_S_MAX: Final = 1.0

Leaders = Mapping[Node, list[TopicPartition]]


class QueueWorker(Caller):
    """Blocking, for one thread.  At least once: a lost answer may bring messages again later.

    `consumer` is the name under which it holds messages; each worker needs one of its own.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        group: str,
        *,
        consumer: str | None = None,
        timeout_s: float = TIMEOUT_S,
        login: KafkaLogin | None = None,
    ) -> None:
        super().__init__(bootstrap, timeout_s=timeout_s, login=login)
        self._topic = topic
        self._group = group
        self._consumer = consumer or str(uuid.uuid4())
        self._sessions: dict[Node, ShareSession] = {}
        self._layout: TopicLayout | None = None
        self._looked_at = 0.0
        self._turn = 0

    def __enter__(self) -> "QueueWorker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- verbs ------------------------------------------------------------------------------------

    def receive(
        self, max_messages: int, *, wait_ms: int = 0, done: Sequence[Received] = ()
    ) -> list[Received]:
        """Up to so many messages, by partition; waits for the first.

        `done` is acked by the same request, durably before there is any answer.
        """

        def attempt(deadline: Deadline) -> list[Received]:
            leaders = self._leaders(deadline)
            left = _by_node(done, leaders)
            found: list[Received] = []
            for node in self._in_turn(leaders):
                session = self._session(node, leaders[node])
                wait = wait_ms // len(leaders)
                found = session.fetch(max_messages, wait, left.pop(node, []), deadline)
                if found:
                    break
            for node, some in left.items():
                self._session(node, leaders[node]).acknowledge(some, ACCEPT, deadline)
            return found

        return self._retry(attempt, is_repeatable=not done, extra_s=wait_ms / 1000)

    def ack(self, *received: Received) -> None:
        """The messages are done with, durably; raises `KafkaRefused` if they are not its own."""
        self._settle(received, ACCEPT)

    def release(self, *received: Received) -> None:
        """They are somebody else's; no failure is counted."""
        self._settle(received, RELEASE)

    def reject(self, *received: Received) -> None:
        """They are dead letters at once."""
        self._settle(received, REJECT)

    def renew(self, *received: Received) -> None:
        """They are its own for the group's whole visibility time from now on."""
        self._settle(received, RENEW)

    def close(self) -> None:
        """Leave: what is still held goes back at once."""
        with contextlib.suppress(ClientError):  # its time will run out
            for session in self._sessions.values():
                session.close(Deadline(LEAVE_S_MAX))
        self._sessions.clear()
        self._cluster.close()

    # --- whom to ask ------------------------------------------------------------------------------

    def _settle(self, received: Sequence[Received], kind: int) -> None:
        def attempt(deadline: Deadline) -> None:
            leaders = self._leaders(deadline)
            for node, some in _by_node(received, leaders).items():
                self._session(node, leaders[node]).acknowledge(some, kind, deadline)

        self._retry(attempt, is_repeatable=False)

    def _leaders(self, deadline: Deadline) -> Leaders:
        """Who leads which of the topic's partitions."""
        now = time.monotonic()
        if self._layout is None or now > self._looked_at + LAYOUT_S_MAX:
            self._layout = self._cluster.layouts([self._topic], deadline)[self._topic]
            self._looked_at = now
        return self._cluster.leaders(self._layout.partitions, deadline)

    def _session(self, node: Node, partitions: list[TopicPartition]) -> ShareSession:
        session = self._sessions.get(node)
        if session is None or session.partitions != partitions:
            assert self._layout is not None
            worker = Worker(self._group, self._consumer, self._topic, self._layout.topic_id)
            session = ShareSession(self._cluster, node, worker, partitions)
            self._sessions[node] = session
        return session

    def _in_turn(self, leaders: Leaders) -> list[Node]:
        self._turn += 1
        nodes = list(leaders)
        first = self._turn % len(nodes)
        return nodes[first:] + nodes[:first]


def _by_node(received: Iterable[Received], leaders: Leaders) -> dict[Node, list[Received]]:
    nodes = {where: node for node, partitions in leaders.items() for where in partitions}
    found: dict[Node, list[Received]] = {}
    for each in received:
        found.setdefault(nodes[each.where], []).append(each)
    return found
