"""Offsets by time, and record batches by offset.

`fetch_range` asks for the next batches before the last are used: while the caller works on what it
was given, the answer to the next request fills the socket's buffers.  Whatever goes wrong with that
answer is put right by asking again in the way of `fetch`, with its tries and its deadline.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from kio.schema.errors import ErrorCode

from goqueue.client.errors import BadAnswer, ClientError
from goqueue.client.kafka.caller import Caller, by_topic, raise_worst
from goqueue.client.kafka.connection import Connection
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.errors import KafkaRefused, check_code, is_retriable
from goqueue.client.kafka.results import Fetched, Node, OffsetFound
from goqueue.model.batch import HEADER_BYTES, LENGTH_OVERHEAD
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import build_request, decode_fetched, encode_body
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.messages import duration
from goqueue.wire.primitives import Buffer

FETCH_BYTES: Final = 4 * 1024 * 1024

_HEAD: Final = struct.Struct(">qi11xi")  # base offset, length, …, last offset delta


class ReadingVerbs(Caller):
    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = True
    ) -> dict[TopicPartition, OffsetFound]:
        """The first offset at or after a time (ms), or at an end of the log.

        The latest, when `read_committed`, is the last stable offset.
        """
        found: dict[TopicPartition, OffsetFound] = {}

        def attempt(deadline: Deadline) -> None:
            missing = [each for each in wanted if each not in found]
            refusals = []
            for node, share in self._cluster.leaders(missing, deadline).items():
                times = {each: wanted[each] for each in share}
                for each, code, offset in self._list(node, times, read_committed, deadline):
                    if code is ErrorCode.none:
                        found[each] = offset
                    else:
                        refusals.append(KafkaRefused(f"offsets of {each}", code))
            raise_worst(refusals)

        self._retry(attempt)
        return found

    def _list(
        self,
        node: Node,
        times: Mapping[TopicPartition, int],
        read_committed: bool,
        deadline: Deadline,
    ) -> Iterator[tuple[TopicPartition, ErrorCode, OffsetFound]]:
        request = build_request(
            ApiKey.LIST_OFFSETS,
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[_times_of_topic(name, each, times) for name, each in by_topic(times).items()],
        )
        response = self._cluster.ask_for(node, ApiKey.LIST_OFFSETS, request, deadline)
        for topic in response.topics:
            for answer in topic.partitions:
                where = TopicPartition(topic.name, answer.partition_index)
                yield where, answer.error_code, OffsetFound(answer.offset, answer.timestamp)

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        bytes_max: int = FETCH_BYTES,
        wait_ms: int = 0,
        read_committed: bool = True,
    ) -> Fetched:
        """Batches from the one that holds `offset` on; at least one, if there is any.

        Waits `wait_ms` for one to come.
        """
        where = TopicPartition(TopicName(topic), partition)
        return self._fetch(PartitionFetch(where, offset, bytes_max, wait_ms, read_committed))

    def _fetch(self, request: "PartitionFetch") -> Fetched:
        body = request.body()

        def attempt(deadline: Deadline) -> Fetched:
            (node,) = self._cluster.leaders([request.where], deadline)
            return request.decode(self._cluster.ask(node, ApiKey.FETCH, body, deadline))

        return self._retry(attempt, extra_s=request.wait_ms / 1000)

    def fetch_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        bytes_max: int = FETCH_BYTES,
        read_committed: bool = True,
    ) -> Iterator[Fetched]:
        """Answers until `end` is reached, or one without records where nothing is left before it.

        Nothing else may be asked of this client until the iterator has ended or is closed.
        """
        where = TopicPartition(TopicName(topic), partition)
        request = PartitionFetch(where, start, bytes_max, read_committed=read_committed)
        ahead: Connection | None = None  # has been sent `request`, and not yet answered
        try:
            while True:
                fetched = self._answer(ahead, request)
                ahead = None
                offset = next_offset(fetched.records, request.offset)
                has_more = offset < end and len(fetched.records) > 0
                if has_more:
                    request = request.at(offset)
                    ahead = self._ask_ahead(request)
                yield fetched
                if not has_more:
                    return
        finally:
            if ahead is not None:
                self._cluster.drop(ahead)  # its answer is of no use to anybody

    def _ask_ahead(self, request: "PartitionFetch") -> Connection | None:
        deadline = Deadline(self._timeout_s)
        try:
            (node,) = self._cluster.leaders([request.where], deadline)
            connection = self._cluster.connection(node, deadline)
        except ClientError:
            return None
        try:
            connection.send(ApiKey.FETCH, request.body(), deadline)
        except ClientError:
            self._cluster.drop(connection)
            return None
        return connection

    def _answer(self, ahead: Connection | None, request: "PartitionFetch") -> Fetched:
        if ahead is None:
            return self._fetch(request)
        try:
            return request.decode(ahead.receive(Deadline(self._timeout_s)))
        except ClientError as error:
            self._cluster.drop(ahead)
            if not is_retriable(error, repeats_unanswered=True):
                raise
            self._cluster.forget()
            return self._fetch(request)


def _times_of_topic(
    name: str, indexes: Iterable[int], times: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    partitions = [
        {"partition_index": index, "timestamp": times[TopicPartition(TopicName(name), index)]}
        for index in indexes
    ]
    return {"name": name, "partitions": partitions}


class PartitionFetch(msgspec.Struct, frozen=True):
    """One fetch of one partition, and how its answer is read."""

    where: TopicPartition
    offset: int
    bytes_max: int
    wait_ms: int = 0
    read_committed: bool = True

    def at(self, offset: int) -> "PartitionFetch":
        return msgspec.structs.replace(self, offset=offset)

    def body(self) -> list[Buffer]:
        partition = {
            "partition": self.where.partition,
            "fetch_offset": self.offset,
            "partition_max_bytes": self.bytes_max,
        }
        request = build_request(
            ApiKey.FETCH,
            max_wait=duration(self.wait_ms),
            min_bytes=1,
            max_bytes=self.bytes_max,
            isolation_level=int(self.read_committed),
            topics=[{"topic": self.where.topic, "partitions": [partition]}],
        )
        return encode_body(ApiKey.FETCH, request)

    def decode(self, body: memoryview) -> Fetched:
        """Raises `KafkaRefused` or `BadAnswer`."""
        doing = f"fetch of {self.where} from offset {self.offset}"
        try:
            code, partitions = decode_fetched(body)
            check_code(ErrorCode(code), doing)
            (found,) = partitions
            check_code(ErrorCode(found.error_code), doing)
        except (MalformedRequest, ValueError) as error:  # a code or a count that is nobody's
            raise BadAnswer(f"{doing}: {error}") from error
        return Fetched(
            found.records,
            found.aborted,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
        )


def next_offset(records: memoryview, offset: int) -> int:
    """Where to go on after these batches; `offset` itself when there is no whole one.

    Raises `BadAnswer` for batches that do not lead on: asking again would never end.
    """
    position = 0
    while position + HEADER_BYTES <= len(records):
        base_offset, length, last_delta = _HEAD.unpack_from(records, position)
        position += length + LENGTH_OVERHEAD
        if position > len(records):
            break  # cut off: it comes whole next time
        if length < HEADER_BYTES - LENGTH_OVERHEAD or base_offset + last_delta < offset:
            raise BadAnswer(f"a batch at offset {base_offset} after offset {offset}")
        offset = base_offset + last_delta + 1
    return offset
