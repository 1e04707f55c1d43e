"""A range of a partition, one fetch after the other, the next asked for before the last is used.

While the caller works on what it was given, the answer to the next request fills the socket's
buffers.  Whatever goes wrong with that answer is put right by asking again in the way of `fetch`,
with its tries and its deadline.
"""

import struct
from collections.abc import Iterator
from typing import Final

from goqueue.client.errors import BadAnswer, ClientError
from goqueue.client.kafka.connection import Connection
from goqueue.client.kafka.deadlines import Deadline
from goqueue.client.kafka.errors import is_retriable
from goqueue.client.kafka.reading import FETCH_BYTES, PartitionFetch, ReadingVerbs
from goqueue.client.kafka.results import Fetched
from goqueue.model.batch import HEADER_BYTES, LENGTH_OVERHEAD
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.wire.apis import ApiKey

_HEAD: Final = struct.Struct(">qi11xi")  # base offset, length, …, last offset delta


class FetchingVerbs(ReadingVerbs):
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

    def _ask_ahead(self, request: PartitionFetch) -> Connection | None:
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

    def _answer(self, ahead: Connection | None, request: PartitionFetch) -> Fetched:
        if ahead is None:
            return self._fetch(request)
        try:
            return request.fetched(ahead.receive(Deadline(self._timeout_s)))
        except ClientError as error:
            self._cluster.drop(ahead)
            if not is_retriable(error, repeats_unanswered=True):
                raise
            self._cluster.forget()
            return self._fetch(request)


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
