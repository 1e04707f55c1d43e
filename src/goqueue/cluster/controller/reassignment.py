"""Replicas move to other nodes: those that come are added, catch up, and then the others go.

replicas = the new ones in their order, then those that go      until the new ones are in sync
"""

from collections.abc import Sequence

import msgspec

from goqueue.cluster.controller.changes import (
    Outcome,
    change_of,
    in_order,
    lead,
    void_elrs,
    without_void_elr,
)
from goqueue.cluster.controller.placement import check_replicas
from goqueue.cluster.errors import NoReassignment
from goqueue.cluster.metadata import NO_LEADER, Metadata, MetadataRecord, Nodes, PartitionState
from goqueue.cluster.replication import effective_min_insync
from goqueue.model.errors import InvalidReplicaAssignment
from goqueue.model.ids import NodeId, TopicId
from goqueue.model.machine import Decision


def reassign(
    metadata: Metadata, topic_id: TopicId, index: int, replicas: Sequence[NodeId]
) -> Decision[MetadataRecord, PartitionState]:
    """To these nodes; a reassignment that is under way is given up for it."""
    state = metadata.partition(topic_id, index)
    check_replicas(metadata.nodes, replicas)
    wanted = tuple(replicas)
    before = tuple(each for each in state.replicas if each not in state.adding)
    going = tuple(each for each in before if each not in wanted)
    kept = {*wanted, *going}
    if not kept & {*state.isr, *state.elr}:
        raise InvalidReplicaAssignment("none of the replicas that would stay is in sync")
    moved = msgspec.structs.replace(
        state,
        replicas=wanted + going,
        adding=tuple(each for each in wanted if each not in before),
        removing=going,
    )
    after = complete_reassignment(metadata, topic_id, _among(metadata, moved, kept))
    return _decision(metadata, topic_id, index, state, after)


def cancel_reassignment(
    metadata: Metadata, topic_id: TopicId, index: int
) -> Decision[MetadataRecord, PartitionState]:
    """Raises `NoReassignment`, or `InvalidReplicaAssignment` when only new replicas are in sync."""
    state = metadata.partition(topic_id, index)
    if not state.adding and not state.removing:
        raise NoReassignment("nothing moves")
    kept = {each for each in state.replicas if each not in state.adding}
    if not kept & {*state.isr, *state.elr}:
        raise InvalidReplicaAssignment("none of the former replicas is in sync any more")
    before = msgspec.structs.replace(state, replicas=in_order(state, kept), adding=(), removing=())
    return _decision(metadata, topic_id, index, state, _among(metadata, before, kept))


def complete_reassignment(
    metadata: Metadata, topic_id: TopicId, state: PartitionState
) -> PartitionState:
    """Without those that go, once enough of the others are in sync."""
    if not state.adding and not state.removing:
        return state
    wanted = tuple(each for each in state.replicas if each not in state.removing)
    in_sync = [each for each in wanted if each in state.isr]
    settings = metadata.topic_by_id(topic_id).settings
    needed = effective_min_insync(settings.min_insync_replicas, len(wanted))
    if not set(state.adding) <= set(in_sync) or len(in_sync) < max(1, needed):
        return state
    after = msgspec.structs.replace(state, replicas=wanted, adding=(), removing=())
    if not any(metadata.nodes.live(each) for each in in_sync) and state.leader != NO_LEADER:
        return state
    return _among(metadata, after, set(wanted))


def _among(metadata: Metadata, state: PartitionState, kept: set[NodeId]) -> PartitionState:
    """With nobody else in sync, eligible, or leading."""
    isr: Nodes = tuple(each for each in state.replicas if each in state.isr and each in kept)
    elr: Nodes = tuple(each for each in state.replicas if each in state.elr and each in kept)
    after = msgspec.structs.replace(state, isr=isr, elr=elr)
    if state.leader in isr or state.leader == NO_LEADER:
        return after
    return lead(after, next((each for each in isr if metadata.nodes.live(each)), None))


def _decision(
    metadata: Metadata,
    topic_id: TopicId,
    index: int,
    before: PartitionState,
    after: PartitionState,
) -> Decision[MetadataRecord, PartitionState]:
    """With what follows when the topic has another replication factor, which is partition 0's."""
    topic = metadata.topic_by_id(topic_id)
    needed = topic.settings.min_insync_replicas
    if index == 0:
        factor = len(after.replicas) - len(after.removing)
        needed = metadata.settings_of(topic.overrides, factor).min_insync_replicas
    after = without_void_elr(after, needed)
    records: list[MetadataRecord] = []
    if after != before:
        records.append(change_of(topic_id, index, before, Outcome(after)))
    if needed < topic.settings.min_insync_replicas:
        records += [each for each in void_elrs(metadata, topic_id, needed) if each.partition != 0]
    return Decision(records, after)
