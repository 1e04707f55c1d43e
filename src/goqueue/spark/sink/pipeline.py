"""Record batches on their way: one request travels while the next is put together.

A producer with an id sends one batch a partition and request.  So batches wait in a line for each
partition, and a request takes the first of every line.  The next one leaves when it is answered:
whatever breaks, it may be sent again, and the partitions know what they have.
"""

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self

from goqueue.client.http.calls.transactions import Member
from goqueue.client.kafka import KafkaClient
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.spark.columns import Encoded, stamp

WAITING_BYTES_MAX: Final = 4 * 1024 * 1024  # what waits while a request of about as much travels
SEQUENCES: Final = 2**31  # they go on from 0 after the largest


class Pipeline:
    """Writes as one producer.  Close it: it has a thread."""

    def __init__(self, client: KafkaClient, producer: Member) -> None:
        self._client = client
        self._producer = producer
        self._sequences: dict[TopicPartition, int] = {}
        self._lines: dict[TopicPartition, deque[bytearray]] = {}  # invariant: none is empty
        self._waiting_bytes = 0
        self._sender = ThreadPoolExecutor(max_workers=1, thread_name_prefix="goqueue-sink")
        self._under_way: Future[object] | None = None
        self.rows = 0
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sender.shutdown(cancel_futures=True)

    def write(self, batches: Iterable[Encoded]) -> None:
        for batch in batches:
            place = TopicPartition(TopicName(batch.topic), batch.partition)
            self._lines.setdefault(place, deque()).append(self._stamp(place, batch))
            self._waiting_bytes += len(batch.raw)
            while self._waiting_bytes >= WAITING_BYTES_MAX:
                self._send()

    def flush(self) -> None:
        """Return when everything is durable; raises what went wrong."""
        while self._lines:
            self._send()
        self._await_under_way()

    def _stamp(self, place: TopicPartition, batch: Encoded) -> bytearray:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = (sequence + batch.records) % SEQUENCES
        self.rows += batch.records
        self.bytes += len(batch.raw)
        return stamp(
            batch.raw,
            producer_id=self._producer.producer_id,
            epoch=self._producer.epoch,
            sequence=sequence,
            transactional=True,
        )

    def _send(self) -> None:
        self._await_under_way()
        request = {place: [line.popleft()] for place, line in self._lines.items()}
        self._lines = {place: line for place, line in self._lines.items() if line}
        self._waiting_bytes -= sum(len(batch) for (batch,) in request.values())
        self._under_way = self._sender.submit(
            self._client.produce, request, transactional_id=self._producer.transactional_id
        )

    def _await_under_way(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
