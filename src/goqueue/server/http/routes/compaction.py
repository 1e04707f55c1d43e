"""Compaction by somebody who has seen the whole log: a Spark job finds what goes, the broker acts.

The broker's own compaction reads keys into bounded memory, and needs many rounds for a log with
many keys.  An engine that reads the topic anyway finds in one go, for every offset, whether a later
record has the same key.  That never changes again: a superseded record stays superseded.

    POST …/compaction/seal      what was written so far may be compacted: from first to end
    POST …/compaction           the superseded offsets below end, as bits; the log is rewritten
"""

import base64
import binascii
import zlib
from typing import Annotated, Final

import msgspec
from litestar.params import JSONBody

from goqueue.api.parsing import INT64_MAX
from goqueue.api.topics import CompactedBody, Sealed, Superseded
from goqueue.broker import Broker, Partition
from goqueue.log import SupersededOffsets
from goqueue.model.errors import InvalidRequest
from goqueue.model.ids import Offset
from goqueue.model.names import topic_name
from goqueue.server.http.asgi.dependencies import TheBroker
from goqueue.server.http.routes.bodies import body_of
from goqueue.server.http.routes.family import Routes
from goqueue.server.http.routes.messages import PartitionPath
from goqueue.server.http.routes.topics import TopicPath

OFFSETS_MAX: Final = 2**30  # of one request: 128 MiB of bits

routes = Routes("topics")

OffsetNumber = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


@routes.post(
    "/topics/{topic:str}/partitions/{partition:int}/compaction/seal",
    "Make what was written so far ready for compaction",
    404,
    507,
)
async def seal(broker: TheBroker, topic: TopicPath, partition: PartitionPath) -> Sealed:
    found = await broker.partition(topic_name(topic), partition)
    first, end = await broker.cleaner.seal(found)
    return Sealed(str(broker.topic(found.topic).topic_id), first, end)


@routes.post(
    "/topics/{topic:str}/partitions/{partition:int}/compaction",
    "Compact a partition by a list of superseded offsets",
    404,
    507,
)
async def compact(
    broker: TheBroker, topic: TopicPath, partition: PartitionPath, data: JSONBody[Superseded]
) -> CompactedBody:
    """What is not superseded stays as it is; tombstones go as the topic's settings say."""
    found = await broker.partition(topic_name(topic), partition)
    _check(broker, found, data)
    first, end = Offset(data.first_offset), Offset(data.end_offset)
    superseded = SupersededOffsets(first, end, _bits(data.superseded, end - first))
    report = await broker.cleaner.compact(
        found, force=True, dry_run=data.dry_run, superseded=superseded
    )
    if report is None:
        return CompactedBody(done=False, dry_run=data.dry_run)
    return body_of(CompactedBody, report, done=True, dry_run=data.dry_run)


def _check(broker: Broker, partition: Partition, data: Superseded) -> None:
    log = partition.log
    if data.topic_id != str(broker.topic(partition.topic).topic_id):
        raise InvalidRequest(f"topic_id: {partition.topic!r} is not the topic that was looked at")
    if data.first_offset > log.start_offset:
        raise InvalidRequest(
            f"first_offset: {data.first_offset} is above the log's start, {log.start_offset}"
        )
    if not data.first_offset <= data.end_offset <= log.stable_offset:
        raise InvalidRequest(
            f"end_offset: {data.end_offset} is not between first_offset, {data.first_offset}, and"
            f" the last stable offset, {log.stable_offset}"
        )
    if data.end_offset - data.first_offset > OFFSETS_MAX:
        raise InvalidRequest(f"end_offset: more than {OFFSETS_MAX} offsets at once")


def _bits(text: str, count: int) -> bytes:
    size = (count + 7) // 8
    try:
        unpacked = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InvalidRequest(f"superseded: not base64 of zlib: {error}") from error
    if len(unpacked) != size:
        raise InvalidRequest(f"superseded: not {size} bytes, a bit for each of {count} offsets")
    return unpacked
