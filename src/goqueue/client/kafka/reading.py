"""Offsets by time, and record batches by offset."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from kio.schema.errors import ErrorCode

from goqueue.client.errors import BadAnswer
from goqueue.client.kafka.caller import Caller, by_topic, raise_worst
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.errors import KafkaRefused, checked
from goqueue.client.kafka.results import Fetched, Node, OffsetFound
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey
from goqueue.wire.client_codec import build_request, decode_fetched, encode_body
from goqueue.wire.errors import MalformedRequest
from goqueue.wire.messages import duration
from goqueue.wire.primitives import Buffer

FETCH_BYTES: Final = 4 * 1024 * 1024


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
            return request.fetched(self._cluster.ask(node, ApiKey.FETCH, body, deadline))

        return self._retry(attempt, extra_s=request.wait_ms / 1000)


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

    def fetched(self, body: memoryview) -> Fetched:
        """Raises `KafkaRefused` or `BadAnswer`."""
        doing = f"fetch of {self.where} from offset {self.offset}"
        try:
            code, partitions = decode_fetched(body)
            checked(ErrorCode(code), doing)
            (found,) = partitions
            checked(ErrorCode(found.error_code), doing)
        except (MalformedRequest, ValueError) as error:  # a code or a count that is nobody's
            raise BadAnswer(f"{doing}: {error}") from error
        return Fetched(
            found.records,
            found.aborted,
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset,
        )
