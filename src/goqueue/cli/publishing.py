"""Sends batches, a bounded number at once, and keeps count of what became of them.

One request at a time keeps the order of the messages; the next batch is made ready meanwhile.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from goqueue.client.errors import ClientError, NoAnswer

if TYPE_CHECKING:
    from goqueue.api.errors import Problem
    from goqueue.api.messages import PublishResult
    from goqueue.client import Client, Message

PROBLEMS_KEPT: Final = 5


class Tally:
    """What became of the messages so far."""

    def __init__(self, *, keep_results: bool) -> None:
        self.published = 0
        self.failed = 0
        self.unknown = 0  # sent, and the answer was lost
        self.bytes = 0
        self.problems: list[Problem] = []
        self.results: list[PublishResult] | None = [] if keep_results else None
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._started, 1e-9)

    def add(self, batch: "list[Message]", results: "list[PublishResult]") -> None:
        problems = [each.error for each in results if each.error is not None]
        self.published += len(results) - len(problems)
        self.failed += len(problems)
        self.bytes += sum(message.size_bytes for message in batch)
        self.problems += problems[: PROBLEMS_KEPT - len(self.problems)]
        if self.results is not None:
            self.results += results

    def lose(self, batch: "list[Message]", error: ClientError) -> None:
        if isinstance(error, NoAnswer):
            self.unknown += len(batch)
        else:
            self.failed += len(batch)


Sent = tuple["list[Message]", "Future[list[PublishResult]]"]


def publish_all(
    client: "Client",
    topic: str,
    batches: "Iterable[list[Message]]",
    tally: Tally,
    *,
    in_flight: int,
    on_progress: Callable[[], None],
) -> None:
    """Send everything; stops at the first request that fails as a whole, and raises that."""
    pending: deque[Sent] = deque()
    with ThreadPoolExecutor(in_flight) as pool:
        try:
            for batch in batches:
                while len(pending) > in_flight or (pending and pending[0][1].done()):
                    _settle(pending.popleft(), tally, on_progress)
                pending.append((batch, pool.submit(client.publish_each, topic, batch)))
        finally:
            _settle_all(pending, tally, on_progress)


def _settle(sent: Sent, tally: Tally, on_progress: Callable[[], None]) -> None:
    batch, future = sent
    try:
        tally.add(batch, future.result())
    except ClientError as error:
        tally.lose(batch, error)
        raise
    finally:
        on_progress()


def _settle_all(pending: "deque[Sent]", tally: Tally, on_progress: Callable[[], None]) -> None:
    """Also after a failure: what was sent by then is counted, and what was not is not sent."""
    failure: ClientError | None = None
    while pending:
        sent = pending.popleft()
        if failure is not None and sent[1].cancel():
            continue
        try:
            _settle(sent, tally, on_progress)
        except ClientError as error:
            failure = failure or error
    if failure is not None:
        raise failure
