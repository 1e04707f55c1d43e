"""What a batch from outside must pass before it is appended, whichever listener it came in by."""

from typing import Final

from goqueue.model import batch as batches
from goqueue.model import compression, records
from goqueue.model.batch import BatchHeader, Buffer
from goqueue.model.compression import Codec
from goqueue.model.errors import InvalidRecords, InvalidTimestamp
from goqueue.model.ids import Timestamp
from goqueue.model.settings import TopicSettings

RECORD_ERRORS_MAX: Final = 10_000  # records of a refused batch that are named as the bad ones

Prepared = tuple[bytearray | memoryview, list[BatchHeader]]


def prepare(data: bytearray | memoryview, settings: TopicSettings, now: Timestamp) -> Prepared:
    """The bytes to append and their headers; raises what is wrong with them.

    Looks at records only when the topic's settings demand it.
    """
    headers = batches.check_produced(data, settings.max_message_bytes)
    if not settings.stamps_append_time:
        _check_timestamps(headers, settings, now)
    if settings.is_compacted:
        _demand_keys(data, headers)
    if settings.compression_type != "producer":
        return _recompress(data, headers, settings.compression_type)
    return data, headers


def _check_timestamps(headers: list[BatchHeader], settings: TopicSettings, now: Timestamp) -> None:
    latest = now + settings.message_timestamp_after_max_ms
    earliest = now - settings.message_timestamp_before_max_ms
    for header in headers:
        if header.max_timestamp > latest or -1 < header.max_timestamp < earliest:
            raise InvalidTimestamp(
                f"timestamp {header.max_timestamp} is outside {max(earliest, 0)} to {latest}"
                " (topic settings message.timestamp.before.max.ms and .after.max.ms)"
            )


def _demand_keys(data: Buffer, headers: list[BatchHeader]) -> None:
    for header in headers:
        block = batches.record_block(data, header)
        without_key = records.null_keys(
            block, header.count, RECORD_ERRORS_MAX, header.last_offset_delta
        )
        if without_key:
            raise InvalidRecords("a compacted topic takes only records with a key", without_key)


def _recompress(data: bytearray | memoryview, headers: list[BatchHeader], name: str) -> Prepared:
    codec = Codec.NONE if name == "uncompressed" else compression.codec_id(name)
    if all(header.codec == codec for header in headers):
        return data, headers
    output = bytearray()
    for header in headers:
        if header.codec == codec:
            output += memoryview(data)[header.position : header.end]
            continue
        output += batches.assemble(
            batches.record_block(data, header),
            base_offset=0,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            count=header.count,
            attributes=(header.attributes & ~batches.CODEC_MASK) | codec,
            producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        )
    return output, batches.verified_headers(output)
