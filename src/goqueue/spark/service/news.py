"""Whether the topics of parked pipelines have something new, asked of the broker for all at once.

A parked pipeline's queries have said how far they are.  It has something new when a partition's end
is elsewhere, when a partition or a topic has come or gone, and when a topic was made again: then
the query itself sees what that means, as if it had never been closed.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol
from uuid import UUID

import msgspec

from goqueue.client.errors import ClientError
from goqueue.client.kafka import LATEST, KafkaClient, KafkaLogin, TopicLayout
from goqueue.model.ids import TopicPartition
from goqueue.spark.source.connection import connect
from goqueue.spark.source.offsets import StoredOffsets, changed_topics, places_of, topic_ids_of
from goqueue.spark.source.options import SourceOptions
from goqueue.spark.source.positions import Places
from goqueue.spark.source.subscriptions import Pattern, Topics, discover_topics

TIMEOUT_MS: Final = 5_000  # a broker that is away holds up the service for no longer


class Parked(msgspec.Struct, frozen=True):
    """Where the queries of a parked pipeline are."""

    sources: tuple[SourceOptions, ...]
    reached: tuple[StoredOffsets, ...]
    """The offsets of each query and each of its sources, as Spark reports them."""


class Reader(Protocol):
    """What is used of a client."""

    def metadata(
        self, topics: Collection[str] | None = None, *, skips_missing: bool = False
    ) -> dict[str, TopicLayout]: ...
    def ends(
        self, partitions: Iterable[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]: ...
    def close(self) -> None: ...


class BrokerReader:
    """One connection to the brokers of a cluster."""

    def __init__(self, bootstrap: str, login: KafkaLogin) -> None:
        self._client: KafkaClient = connect(bootstrap, TIMEOUT_MS, login)

    def metadata(
        self, topics: Collection[str] | None = None, *, skips_missing: bool = False
    ) -> dict[str, TopicLayout]:
        return self._client.metadata(topics, skips_missing=skips_missing)

    def ends(
        self, partitions: Iterable[TopicPartition], *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, LATEST)
        if not wanted:
            return {}
        found = self._client.list_offsets(wanted, read_committed=read_committed)
        return {where: each.offset for where, each in found.items()}

    def close(self) -> None:
        self._client.close()


class Topology(msgspec.Struct, frozen=True):
    """The topics of a cluster as they are now."""

    layouts: dict[str, TopicLayout]
    committed: Places
    """The end of each partition for readers of committed data, and for the others."""
    uncommitted: Places

    def metadata(
        self, topics: Collection[str] | None = None, *, skips_missing: bool = False
    ) -> dict[str, TopicLayout]:
        names = self.layouts if topics is None else topics
        return {each: self.layouts[each] for each in names if each in self.layouts}


class News:
    """Keeps a connection to each cluster while somebody who reads there is parked."""

    def __init__(self, reader: Callable[[str, KafkaLogin], Reader] = BrokerReader) -> None:
        self._reader = reader
        self._readers: dict[tuple[str, str | None], Reader] = {}

    def look(self, parked: Mapping[str, Parked]) -> dict[str, int]:
        """Of those with something new, by name: how many messages, 0 for something else.

        Of a cluster that is away there is none.
        """
        clusters: dict[tuple[str, str | None], dict[str, Parked]] = {}
        for name, each in parked.items():
            first = each.sources[0]
            clusters.setdefault((first.bootstrap, first.login_file), {})[name] = each
        found: dict[str, int] = {}
        for cluster, members in clusters.items():
            with contextlib.suppress(ClientError):
                found |= self._look(cluster, members)
        for cluster in self._readers.keys() - clusters.keys():
            self._readers.pop(cluster).close()
        return found

    def close(self) -> None:
        self.look({})

    def _look(
        self, cluster: tuple[str, str | None], members: Mapping[str, Parked]
    ) -> dict[str, int]:
        reader = self._readers.get(cluster)
        if reader is None:
            login = next(iter(members.values())).sources[0].login
            reader = self._readers[cluster] = self._reader(cluster[0], login)
        try:
            now = read_topology(reader, members.values())
        except ClientError:
            self._readers.pop(cluster).close()
            raise
        news = {name: count_news(each, now) for name, each in members.items()}
        return {name: count for name, count in news.items() if count is not None}


def read_topology(reader: Reader, members: Iterable[Parked]) -> Topology:
    """What somebody of these reads: in one question for topics, and one or two for their ends."""
    everybody = list(members)
    sources = [source for each in everybody for source in each.sources]
    has_pattern = any(isinstance(each.subscription, Pattern) for each in sources)
    read = {
        True: sorted(_topics(each for each in everybody if _is_committed(each))),
        False: sorted(_topics(each for each in everybody if not _is_committed(each))),
    }
    names = None if has_pattern else sorted({*read[True], *read[False]})
    layouts = reader.metadata(names, skips_missing=True)
    ends = {
        committed: reader.ends(
            (where for name in names if name in layouts for where in layouts[name].partitions),
            read_committed=committed,
        )
        for committed, names in read.items()
    }
    return Topology(layouts, ends[True], ends[False])


def _is_committed(parked: Parked) -> bool:
    return all(each.read_committed for each in parked.sources)


def _topics(members: Iterable[Parked]) -> set[str]:
    """Those that were read, and those that are named; a pattern's new ones are new by name."""
    found = set[str]()
    for each in members:
        found.update(where.topic for stored in each.reached for where in places_of(stored))
        for source in each.sources:
            if isinstance(source.subscription, Topics):
                found.update(source.subscription.names)
    return found


def count_news(parked: Parked, now: Topology) -> int | None:
    """How many messages are new, 0 for something else that is; None: nothing."""
    ends = now.committed if _is_committed(parked) else now.uncommitted
    count, is_new = 0, _has_new_partitions(parked, now)
    ids = {name: layout.topic_id for name, layout in now.layouts.items()}
    for stored in parked.reached:
        count += sum(
            max(0, ends.get(where, 0) - offset) for where, offset in places_of(stored).items()
        )
        is_new = is_new or _has_moved(stored, ends, ids)
    return count if is_new or count else None


def _has_moved(stored: StoredOffsets, ends: Places, ids: Mapping[str, UUID]) -> bool:
    is_elsewhere = any(ends.get(where) != offset for where, offset in places_of(stored).items())
    return is_elsewhere or bool(changed_topics(topic_ids_of(stored), ids))


def _has_new_partitions(parked: Parked, now: Topology) -> bool:
    """Of topics that are read, or by a pattern; a source that no sink reads has none."""
    known = {where for stored in parked.reached for where in places_of(stored)}
    topics = {where.topic for where in known}
    for source in parked.sources:
        found = discover_topics(source.subscription, now, skips_missing=True).partitions
        by_pattern = isinstance(source.subscription, Pattern)
        if any(each not in known and (by_pattern or each.topic in topics) for each in found):
            return True
    return False
