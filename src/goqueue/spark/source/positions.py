"""Where reading begins and ends: as options say it, and as offsets.

    earliest, latest                      the two ends of each log
    {"orders": {"0": 42, "1": -2}}        offsets; -2 is the earliest, -1 the latest
    2026-02-03T10:00:00Z                  the first record of that time or later
    {"orders": {"0": 1770112800000}}      the same for each partition, in milliseconds

`resolve` turns one into an offset for each partition, through a broker.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, Literal

import msgspec

from goqueue.client.errors import ClientError
from goqueue.client.kafka import EARLIEST, LATEST, OffsetFound
from goqueue.model import times
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.times import time_text

End = Literal["earliest", "latest"]
Places = dict[TopicPartition, int]

OFFSET_MAX: Final = 2**63 - 1


class AtOffsets(msgspec.Struct, frozen=True, tag=True):
    offsets: Mapping[TopicPartition, int]


class AtTime(msgspec.Struct, frozen=True, tag=True):
    timestamp_ms: int


class AtTimes(msgspec.Struct, frozen=True, tag=True):
    timestamps_ms: Mapping[TopicPartition, int]


Position = End | AtOffsets | AtTime | AtTimes


class PositionUnknown(ClientError):
    """What the options ask for is not there."""


# --- from text --------------------------------------------------------------------------------


def parse_position(text: str) -> Position:
    """What `startingOffsets` and `endingOffsets` take; raises `ValueError`."""
    match text.strip().lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case _:
            pass
    if text.lstrip().startswith("{"):
        return AtOffsets(parse_places(text, least=EARLIEST))
    try:
        return AtTime(parse_time(text))
    except ValueError:
        raise ValueError(
            f"{text!r} is not earliest, latest, a time (2026-02-03T10:00:00Z),"
            ' nor offsets ({"topic": {"0": 42}})'
        ) from None


def parse_time(text: str) -> int:
    """Milliseconds since 1970, from such or from ISO 8601 (UTC unless it says); `ValueError`."""
    return times.parse_time(text.strip(), zone="utc")


def parse_places(text: str, *, least: int) -> Places:
    """`{"topic": {"0": 42}}`, no number below `least`; raises `ValueError`."""
    try:
        topics = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ValueError(f'it is not {{"topic": {{"0": 42}}}}: {error}') from None
    places = {
        TopicPartition(TopicName(topic), partition): number
        for topic, partitions in topics.items()
        for partition, number in partitions.items()
    }
    for where, number in places.items():
        if where.partition < 0 or not least <= number <= OFFSET_MAX:
            raise ValueError(f"{where} cannot be at {number}")
    return places


# --- to offsets -------------------------------------------------------------------------------

ListOffsets = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, OffsetFound]]


def resolve(
    position: Position,
    partitions: Collection[TopicPartition],
    list_offsets: ListOffsets,
    *,
    beyond_end: Literal["error", "latest"],
) -> Places:
    """An offset for each partition; raises `PositionUnknown`.

    `beyond_end`: what a time means that no record is as young as.
    """
    match position:
        case "earliest":
            return _ends(partitions, EARLIEST, list_offsets)
        case "latest":
            return _ends(partitions, LATEST, list_offsets)
        case AtOffsets(offsets=offsets):
            _check_cover(offsets, partitions)
            return _with_ends(offsets, list_offsets)
        case AtTime(timestamp_ms=timestamp_ms):
            timestamps = dict.fromkeys(partitions, timestamp_ms)
            return _by_time(timestamps, list_offsets, beyond_end)
        case AtTimes(timestamps_ms=timestamps_ms):
            _check_cover(timestamps_ms, partitions)
            return _by_time(timestamps_ms, list_offsets, beyond_end)


def _ends(partitions: Collection[TopicPartition], end: int, list_offsets: ListOffsets) -> Places:
    found = list_offsets(dict.fromkeys(partitions, end))
    return {where: answer.offset for where, answer in found.items()}


def _with_ends(offsets: Mapping[TopicPartition, int], list_offsets: ListOffsets) -> Places:
    """Kafka's two words for the ends, -2 and -1, become what they stand for."""
    words = {where: offset for where, offset in offsets.items() if offset < 0}
    found = list_offsets(words) if words else {}
    return {
        where: found[where].offset if where in found else offset
        for where, offset in offsets.items()
    }


def _by_time(
    timestamps: Mapping[TopicPartition, int],
    list_offsets: ListOffsets,
    beyond_end: Literal["error", "latest"],
) -> Places:
    found = list_offsets(timestamps)
    younger = [where for where, answer in found.items() if answer.offset < 0]
    if younger and beyond_end == "error":
        where = younger[0]
        wanted = time_text(timestamps[where]) or timestamps[where]
        raise PositionUnknown(
            f"{where} has no record of {wanted} or later: start earlier, or set"
            " startingOffsetsByTimestampStrategy=latest to wait for one"
        )
    latest = _ends(younger, LATEST, list_offsets) if younger else {}
    return {where: latest.get(where, answer.offset) for where, answer in found.items()}


def _check_cover(given: Collection[TopicPartition], partitions: Collection[TopicPartition]) -> None:
    missing = sorted(set(partitions) - set(given))
    if missing:
        raise PositionUnknown(
            f"offsets are given, and none for {_some(missing)}: name every partition"
            " (-2 is the earliest, -1 the latest)"
        )
    unknown = sorted(set(given) - set(partitions))
    if unknown:
        raise PositionUnknown(f"offsets are given for {_some(unknown)}, which is not read")


def _some(partitions: list[TopicPartition]) -> str:
    shown = ", ".join(map(str, partitions[:3]))
    return shown if len(partitions) <= 3 else f"{shown} and {len(partitions) - 3} more"
