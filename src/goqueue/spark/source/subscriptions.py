"""Which partitions are read: of topics by name, of topics by pattern, or these and no others."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol, assert_never
from uuid import UUID

import msgspec

from goqueue.client.errors import ClientError
from goqueue.client.kafka import TopicLayout
from goqueue.model.errors import InvalidName
from goqueue.model.ids import TopicName, TopicPartition
from goqueue.model.names import topic_name

SHOWN_MAX: Final = 5


class Topics(msgspec.Struct, frozen=True, tag=True):
    names: tuple[str, ...]


class Pattern(msgspec.Struct, frozen=True, tag=True):
    """Topics whose whole name matches; the broker's own are left out."""

    regex: str


class Assigned(msgspec.Struct, frozen=True, tag=True):
    partitions: tuple[TopicPartition, ...]


Subscription = Topics | Pattern | Assigned


class Cluster(Protocol):
    """Whoever knows which topics there are: a client."""

    def metadata(
        self, topics: Collection[str] | None = None, *, skips_missing: bool = False
    ) -> dict[str, TopicLayout]: ...


class NothingToRead(ClientError):
    """A topic or partition that the options name does not exist."""


# --- from text --------------------------------------------------------------------------------


def parse_topics(text: str) -> Topics:
    """`orders, payments`; raises `ValueError`."""
    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ValueError("no topic is named")
    try:
        return Topics(tuple(topic_name(name) for name in names))
    except InvalidName as error:
        raise ValueError(str(error)) from None


def parse_pattern(text: str) -> Pattern:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return Pattern(text)


def parse_assigned(text: str) -> Assigned:
    """`{"orders": [0, 1]}`; raises `ValueError`."""
    try:
        topics = msgspec.json.decode(text, type=dict[str, list[int]])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ValueError(f'it is not {{"topic": [0, 1]}}: {error}') from None
    found = [
        TopicPartition(TopicName(topic), index)
        for topic, indexes in topics.items()
        for index in indexes
    ]
    if not found or any(where.partition < 0 for where in found):
        raise ValueError("name at least one partition; they are numbered from 0")
    return Assigned(tuple(dict.fromkeys(found)))


# --- to partitions ----------------------------------------------------------------------------


class Discovered(msgspec.Struct, frozen=True):
    partitions: list[TopicPartition]  # in order
    topic_ids: dict[str, UUID]
    """Of a topic that is deleted and made again under its name, the id is another one."""


def discover(
    subscription: Subscription, client: Cluster, *, skips_missing: bool = False
) -> list[TopicPartition]:
    """The partitions there are now, in order; raises `NothingToRead` for what does not exist.

    With `skips_missing` that is left out: whoever read it before knows what it means.
    """
    return discover_topics(subscription, client, skips_missing=skips_missing).partitions


def discover_topics(
    subscription: Subscription, client: Cluster, *, skips_missing: bool = False
) -> Discovered:
    match subscription:
        case Topics(names=names):
            layouts = _resolve_named(names, client, skips_missing)
        case Pattern(regex=regex):
            layouts = _resolve_matching(re.compile(regex), client)
        case Assigned(partitions=assigned):
            names = tuple(dict.fromkeys(where.topic for where in assigned))
            layouts = _resolve_named(names, client, skips_missing)
            return Discovered(_resolve_assigned(assigned, layouts, skips_missing), _ids(layouts))
        case _:
            assert_never(subscription)
    partitions = sorted(where for layout in layouts.values() for where in layout.partitions)
    return Discovered(partitions, _ids(layouts))


def _ids(layouts: Mapping[str, TopicLayout]) -> dict[str, UUID]:
    return {name: layout.topic_id for name, layout in layouts.items()}


def _resolve_matching(pattern: re.Pattern[str], client: Cluster) -> dict[str, TopicLayout]:
    return {
        name: layout
        for name, layout in client.metadata().items()
        if not layout.is_internal and pattern.fullmatch(name)
    }


def _resolve_named(
    names: Sequence[str], client: Cluster, skips_missing: bool
) -> dict[str, TopicLayout]:
    found = client.metadata(names, skips_missing=True)
    missing = [name for name in names if name not in found]
    if missing and not skips_missing:
        raise _no_topic(missing[0], client.metadata())
    return found


def _resolve_assigned(
    partitions: Sequence[TopicPartition],
    layouts: Mapping[str, TopicLayout],
    skips_missing: bool,
) -> list[TopicPartition]:
    counts = {name: layout.partition_count for name, layout in layouts.items()}
    present = sorted(each for each in partitions if each.partition < counts.get(each.topic, 0))
    missing = sorted(set(partitions) - set(present))
    if missing and not skips_missing:
        first = missing[0]
        raise NothingToRead(
            f"{first} does not exist: the topic has {counts[first.topic]} partitions, from 0"
        )
    return present


def _no_topic(name: str, known: Iterable[str]) -> NothingToRead:
    similar = difflib.get_close_matches(name, known, n=SHOWN_MAX)
    hint = f"did you mean {' or '.join(similar)}?" if similar else "create it or write to it first"
    return NothingToRead(f"there is no topic {name!r}: {hint}")
