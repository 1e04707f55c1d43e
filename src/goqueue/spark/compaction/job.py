"""`goqueue pipeline compact`: Spark finds what is superseded, the server rewrites.

    seal       the server makes what was written so far ready, and says up to where
    survey     Spark finds the last offset of each key: keys and offsets only, no values
    rewrite    the server gets a bit for each offset and drops what is superseded, batch by batch,
               exchanging files as its own compaction does: a crash leaves the old or the new

The server's own compaction keeps keys in bounded memory, and needs many rounds over a log with many
keys; this needs one, and Spark's memory instead of the server's.
"""

import base64
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.api.topics import CompactedBody, Sealed
from goqueue.client import Client
from goqueue.client.http.calls import topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SCHEMA: Final = "key binary, partition int, offset bigint"
STRETCH: Final = 32_768  # offsets of which Spark makes one bitmap
STRETCH_BYTES: Final = STRETCH // 8

Say = Callable[[str], None]


class PartitionCompacted(msgspec.Struct, frozen=True):
    partition: int
    superseded: int
    result: CompactedBody


def compact(
    session: "SparkSession",
    client: Client,
    topic: str,
    servers: str,
    *,
    dry_run: bool = False,
    say: Say = lambda _: None,
) -> list[PartitionCompacted]:
    """Compact all partitions of a topic; gives what became of each that had something to drop."""
    count = client.topic(topic).partitions
    sealed = {index: client.send(topics.seal_compaction(topic, index)) for index in range(count)}
    say(f"reading the keys of {topic}")
    superseded = superseded_bits(_keys(session, topic, servers, sealed), sealed)
    found = []
    for index, bits in superseded.items():
        say(f"rewriting {topic}/{index}")
        first = sealed[index].first_offset // STRETCH * STRETCH
        packed = base64.b64encode(zlib.compress(bits)).decode()
        call = topics.compact(topic, index, sealed[index], first, packed, dry_run=dry_run)
        number = int.from_bytes(bits, "little").bit_count()
        found.append(PartitionCompacted(index, number, client.send(call)))
    return found


def _keys(
    session: "SparkSession", topic: str, servers: str, sealed: Mapping[int, Sealed]
) -> "DataFrame":
    ends = {str(index): each.end_offset for index, each in sealed.items()}
    return (
        session.read.format("goqueue")
        .option("bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("endingOffsets", msgspec.json.encode({topic: ends}).decode())
        .schema(SCHEMA)
        .load()
        .where("key is not null")
    )


def superseded_bits(keys: "DataFrame", sealed: Mapping[int, Sealed]) -> dict[int, bytes]:
    """Of each partition where anything is superseded, a bit an offset, from a stretch's start."""
    from pyspark.sql import functions as sql

    last = keys.groupBy("partition", "key").agg(sql.max("offset").alias("offset"))
    bits = {index: _empty(each) for index, each in sealed.items()}
    for partition, stretch, bitmap in _stretches(keys).collect():
        place = _place(stretch, sealed[partition])
        bits[partition][place] = bitmap
    for partition, stretch, bitmap in _stretches(last).collect():
        place = _place(stretch, sealed[partition])
        bits[partition][place] = _without(bits[partition][place], bitmap)
    return {index: _cut(found, sealed[index]) for index, found in bits.items() if any(found)}


def _stretches(offsets: "DataFrame") -> "DataFrame":
    """Offsets as bitmaps: partition, number of the stretch, bits."""
    from pyspark.sql import functions as sql

    number = sql.col("offset") + 1  # Spark counts from 1
    return offsets.groupBy(
        "partition", (sql.bitmap_bucket_number(number) - 1).alias("stretch")
    ).agg(_bits(number).alias("bits"))


def _bits(number: "Column") -> "Column":
    from pyspark.sql import functions as sql

    return sql.bitmap_construct_agg(sql.bitmap_bit_position(number))


def _empty(sealed: Sealed) -> bytearray:
    """Whole stretches, from the one that the first offset lies in."""
    first = sealed.first_offset // STRETCH
    return bytearray((-(-sealed.end_offset // STRETCH) - first) * STRETCH_BYTES)


def _place(stretch: int, sealed: Sealed) -> slice:
    at = (stretch - sealed.first_offset // STRETCH) * STRETCH_BYTES
    return slice(at, at + STRETCH_BYTES)


def _without(bits: bytearray, others: bytes) -> bytes:
    left = int.from_bytes(bits, "little") & ~int.from_bytes(others, "little")
    return left.to_bytes(STRETCH_BYTES, "little")


def _cut(bits: bytearray, sealed: Sealed) -> bytes:
    first = sealed.first_offset // STRETCH * STRETCH
    return bytes(bits[: (sealed.end_offset - first + 7) // 8])
