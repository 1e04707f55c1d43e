"""Topics: created, grown, set, deleted."""

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from goqueue.cluster.controller.changes import void_elrs
from goqueue.cluster.controller.placement import (
    default_replication_factor,
    place,
    place_as_told,
)
from goqueue.cluster.controller.tenants import check_room, limit_settings, owner
from goqueue.cluster.metadata import (
    Metadata,
    MetadataRecord,
    PartitionsAdded,
    Placements,
    ReplicaGone,
    SettingsChanged,
    Topic,
    TopicCreated,
    TopicDeleted,
    merge_settings,
)
from goqueue.model.errors import (
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidSetting,
    PolicyViolation,
    TopicExists,
)
from goqueue.model.ids import NodeId, Timestamp, TopicId, TopicName
from goqueue.model.machine import Decision
from goqueue.model.settings import stored_text

Assignments = Sequence[Sequence[NodeId]]  # the replicas of each partition


def create_topic(
    metadata: Metadata,
    name: TopicName,
    *,
    topic_id: TopicId,
    partitions: int,
    settings: Mapping[str, str],
    now: Timestamp,
    may_look_alike: bool = False,
    replication_factor: int | None = None,
    assignments: Assignments | None = None,
) -> Decision[MetadataRecord, Topic]:
    """On nodes that are chosen, or on those of `assignments`, one list for each partition."""
    if metadata.find(name) is not None:
        raise TopicExists(f"topic {name!r} exists already")
    if not may_look_alike:
        _refuse_look_alike(metadata, name)
    _check_partitions(metadata, partitions)
    check_room(metadata, name, partitions, partitions, 1)
    kept = {key: stored_text(key, text) for key, text in settings.items()}
    kept = limit_settings(metadata, name, kept, kept)
    placements = _place(metadata, partitions, replication_factor, assignments)
    record = TopicCreated(topic_id, name, partitions, kept, now, placements)
    topic = metadata.topic_of(record)
    _check_min_insync(topic, settings)
    return Decision((record,), topic)


def _place(
    metadata: Metadata,
    partitions: int,
    replication_factor: int | None,
    assignments: Assignments | None = None,
) -> Placements:
    if assignments is not None:
        return place_as_told(metadata, assignments, partitions)
    if not metadata.nodes:  # of a data directory that is repaired: its node has yet to register
        return ()
    if replication_factor is None:
        replication_factor = default_replication_factor(metadata.nodes)
    return place(metadata, partitions, replication_factor)


def add_partitions(
    metadata: Metadata, name: str, partitions: int, assignments: Assignments | None = None
) -> Decision[MetadataRecord, Topic]:
    """So that there are `partitions` in all; `assignments` are of the new ones."""
    topic = metadata.topic(name)
    if partitions <= topic.partitions:
        raise InvalidPartitions(
            f"topic {name!r} has {topic.partitions} partitions; {partitions} is not more,"
            " and partitions cannot be taken away"
        )
    _check_partitions(metadata, partitions)
    check_room(metadata, name, partitions, partitions - topic.partitions, 0)
    count, factor = partitions - topic.partitions, topic.replication_factor
    if any(len(each) != factor for each in assignments or ()):
        raise InvalidReplicaAssignment(f"the topic has replication factor {factor}")
    placements = _place(metadata, count, factor, assignments)
    record = PartitionsAdded(topic.topic_id, partitions, placements)
    return Decision((record,), msgspec.structs.replace(topic, partitions=partitions))


def change_settings(
    metadata: Metadata, name: str, changes: Mapping[str, str | None], *, replace: bool = False
) -> Decision[MetadataRecord, Topic]:
    """Set or, with None, unset; with `replace` whatever is not named is unset too."""
    topic = metadata.topic(name)
    kept = {
        key: None if value is None else stored_text(key, value) for key, value in changes.items()
    }
    overrides = merge_settings({} if replace else topic.overrides, kept)
    overrides = limit_settings(metadata, name, overrides, kept)
    settings = metadata.settings_of(overrides, topic.replication_factor)
    changed = msgspec.structs.replace(topic, overrides=overrides, settings=settings)
    _check_min_insync(changed, changes)
    if overrides == topic.overrides:
        return Decision((), topic)
    records: list[MetadataRecord] = [SettingsChanged(topic.topic_id, overrides)]
    if settings.min_insync_replicas < topic.settings.min_insync_replicas:
        records += void_elrs(metadata, topic.topic_id, settings.min_insync_replicas)
    return Decision(records, changed)


def delete_topic(metadata: Metadata, name: str) -> Decision[MetadataRecord, Topic]:
    topic = metadata.topic(name)
    states = metadata.partitions.of(topic.topic_id)
    nodes = sorted({node_id for state in states for node_id in state.replicas})
    return Decision((TopicDeleted(topic.topic_id, tuple(nodes)),), topic)


def note_data_removed(
    metadata: Metadata, node_id: NodeId, topic_ids: Iterable[TopicId]
) -> Decision[MetadataRecord, None]:
    """The node has no data of the topics, which are deleted, any more."""
    removed = [each for each in topic_ids if each in metadata.deletions]
    return Decision([ReplicaGone(each, node_id) for each in removed], None)


def _check_partitions(metadata: Metadata, partitions: int) -> None:
    if not 1 <= partitions <= metadata.partitions_max:
        raise InvalidPartitions(
            f"{partitions} partitions; allowed are 1 to {metadata.partitions_max}"
            " (setting topics.partitions_max)"
        )


def _refuse_look_alike(metadata: Metadata, name: TopicName) -> None:
    other = metadata.look_alike(name)
    if other is not None and owner(metadata, other) == owner(metadata, name):
        raise PolicyViolation(f"topic {name!r} differs from {other!r} only by '.' and '_'")


def _check_min_insync(topic: Topic, given: Container[str]) -> None:
    """Refuse what no number of live nodes could meet.

    What came from the server's defaults, or was set when it was not looked at, is taken for as
    many replicas as there are.
    """
    wanted = topic.settings.min_insync_replicas
    if "min.insync.replicas" in given and wanted > topic.replication_factor:
        raise InvalidSetting(
            f"min.insync.replicas={wanted}: the topic has replication factor"
            f" {topic.replication_factor}, so there are never {wanted} replicas in sync"
        )
