"""A share session (KIP-932): what one worker fetches from one broker, and what became of it.

The broker remembers the partitions and counts the requests.  A session is lost with the broker, or
with an answer.  It is opened again then, and what is held stays held: by the worker's name.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from kio.schema.errors import ErrorCode

from goqueue.client.kafka.caller import raise_worst
from goqueue.client.kafka.cluster import Cluster
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.errors import KafkaRefused, check_code
from goqueue.client.kafka.results import Node
from goqueue.model.batch import decode_all
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.record import Record
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import build_request
from goqueue.wire.messages import duration

FETCH_BYTES: Final = 16 * 1024 * 1024
OPEN_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
RECORD_LIMIT: Final = 1  # never more than asked for, whatever the batches hold
LOST: Final = (ErrorCode.share_session_not_found, ErrorCode.invalid_share_session_epoch)

Span = tuple[int, int, int]  # first offset, last offset, deliveries with this one


class Received(msgspec.Struct, frozen=True):
    """Messages of one partition, the worker's until it settles them or its time is over."""

    where: TopicPartition
    spans: tuple[Span, ...]  # ascending
    data: bytes  # whole batches, which may hold messages that are not among these

    @property
    def count(self) -> int:
        return sum(last - first + 1 for first, last, _ in self.spans)

    def records(self) -> list[Record]:
        found = list(decode_all(self.data))
        if len(found) == self.count:
            return found
        wanted = {each for first, last, _ in self.spans for each in range(first, last + 1)}
        return [record for record in found if record.offset in wanted]


class Worker(msgspec.Struct, frozen=True):
    """Who fetches, and what."""

    group: str
    consumer: str
    topic: str
    topic_id: UUID


class ShareSession:
    def __init__(
        self, cluster: Cluster, node: Node, worker: Worker, partitions: Sequence[TopicPartition]
    ) -> None:
        self.partitions = partitions
        self._cluster = cluster
        self._node = node
        self._worker = worker
        self._epoch = OPEN_EPOCH

    def fetch(
        self, count: int, wait_ms: int, done: Iterable[Received], deadline: Deadline
    ) -> list[Received]:
        """Up to `count` messages, waiting for the first; `done` is acked before."""
        topics = self._topics(done, ACCEPT)
        limits = _limits(count, wait_ms)
        response = self._call(ApiKey.SHARE_FETCH, deadline, topics=topics, **limits)
        results = list(self._results(response))
        _check((where, each.error_code, each.error_message) for where, each in results)
        _check(
            (where, ErrorCode(each.acknowledge_error_code), each.acknowledge_error_message)
            for where, each in results
        )
        return [
            Received(where, tuple(map(_span, each.acquired_records)), bytes(each.records or b""))
            for where, each in results
            if each.acquired_records
        ]

    def acknowledge(self, received: Iterable[Received], kind: int, deadline: Deadline) -> None:
        topics, renews = self._topics(received, kind), kind == RENEW
        response = self._call(
            ApiKey.SHARE_ACKNOWLEDGE, deadline, topics=topics, is_renew_ack=renews
        )
        results = self._results(response)
        _check((where, each.error_code, each.error_message) for where, each in results)

    def close(self, deadline: Deadline) -> None:
        """What is still held goes back."""
        if self._epoch != OPEN_EPOCH:
            self._epoch = FINAL_EPOCH
            self._ask(ApiKey.SHARE_ACKNOWLEDGE, deadline, topics=[])

    # --- asking -----------------------------------------------------------------------------------

    def _call(self, api_key: ApiKey, deadline: Deadline, **fields: Any) -> Any:
        if self._epoch == OPEN_EPOCH:
            self._open(deadline)
        try:
            return self._ask(api_key, deadline, **fields)
        except KafkaRefused as refusal:
            if refusal.code not in LOST:
                raise
        self._open(deadline)
        return self._ask(api_key, deadline, **fields)

    def _open(self, deadline: Deadline) -> None:
        """Name the partitions; nothing is fetched yet, and nothing can be acknowledged."""
        self._epoch = OPEN_EPOCH
        named = [{"partition_index": each.partition} for each in self.partitions]
        topics = [{"topic_id": self._worker.topic_id, "partitions": named}]
        self._ask(ApiKey.SHARE_FETCH, deadline, topics=topics, **_limits(0, 0))

    def _ask(self, api_key: ApiKey, deadline: Deadline, **fields: Any) -> Any:
        request = build_request(
            api_key,
            group_id=self._worker.group,
            member_id=self._worker.consumer,
            share_session_epoch=self._epoch,
            **fields,
        )
        response = self._cluster.ask_for(self._node, api_key, request, deadline)
        check_code(response.error_code, f"group {self._worker.group!r}", response.error_message)
        self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return response

    def _topics(self, received: Iterable[Received], kind: int) -> list[dict[str, Any]]:
        named = [
            {
                "partition_index": each.where.partition,
                "acknowledgement_batches": [
                    {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}
                    for first, last, _ in each.spans
                ],
            }
            for each in received
        ]
        return [{"topic_id": self._worker.topic_id, "partitions": named}] if named else []

    def _results(self, response: Any) -> Iterator[tuple[TopicPartition, Any]]:
        for topic in response.responses:
            for each in topic.partitions:
                yield TopicPartition(TopicName(self._worker.topic), each.partition_index), each


def _limits(count: int, wait_ms: int) -> dict[str, Any]:
    return {
        "max_wait": duration(wait_ms),
        "min_bytes": 1,
        "max_bytes": FETCH_BYTES,
        "max_records": count,
        "batch_size": count,
        "share_acquire_mode": RECORD_LIMIT,
    }


def _check(results: Iterable[tuple[TopicPartition, ErrorCode, str | None]]) -> None:
    """Raises `KafkaRefused` unless all went well."""
    raise_worst(
        [
            KafkaRefused(f"messages of {where}", code, message)
            for where, code, message in results
            if code is not ErrorCode.none
        ]
    )


def _span(acquired: Any) -> Span:
    return acquired.first_offset, acquired.last_offset, acquired.delivery_count
