"""A leader proposes who is in sync; the proposal is granted if nothing has changed since.

Each member is named with its node's epoch: a node that lost its disk since it was proposed must not
slip in (KIP-903).  A leader that leaves itself out resigns.
"""

from collections.abc import Collection, Sequence

import msgspec

from goqueue.cluster.controller.changes import (
    Outcome,
    change_of,
    in_order,
    settle,
    terms_of,
)
from goqueue.cluster.controller.reassignment import complete_reassignment
from goqueue.cluster.errors import IneligibleReplica, StalePartitionEpoch
from goqueue.cluster.metadata import Metadata, MetadataRecord, PartitionState
from goqueue.cluster.replication import IsrMember, eligible_after
from goqueue.model.errors import FencedLeaderEpoch, InvalidRequest, NotLeader
from goqueue.model.ids import Epoch, NodeEpoch, NodeId, PartitionEpoch, TopicId
from goqueue.model.machine import Decision


class IsrChange(msgspec.Struct, frozen=True, kw_only=True):
    """Of a partition, as its leader wants it."""

    topic_id: TopicId
    partition: int
    leader_epoch: Epoch
    partition_epoch: PartitionEpoch  # that it knows
    isr: Sequence[IsrMember]
    lost_data: Collection[NodeId] = ()  # that have less than they acknowledged


def alter_partition(
    metadata: Metadata, node_id: NodeId, node_epoch: NodeEpoch, change: IsrChange
) -> Decision[MetadataRecord, PartitionState]:
    metadata.nodes.at(node_id, node_epoch)
    state = metadata.partition(change.topic_id, change.partition)
    _check_leader(state, node_id, change)
    _check_members(metadata, state, change)
    members = {member.node for member in change.isr}
    if node_id in members:
        outcome = Outcome(_with_isr(metadata, state, change, members))
    else:
        lost = {node_id, *change.lost_data}
        terms = terms_of(metadata, change.topic_id, metadata.nodes.live, lost)
        remaining = msgspec.structs.replace(state, isr=in_order(state, members))
        outcome = settle(remaining, terms)
    after = complete_reassignment(metadata, change.topic_id, outcome.state)
    outcome = msgspec.structs.replace(outcome, state=after)
    record = change_of(change.topic_id, change.partition, state, outcome)
    epoch = record.partition_epoch
    return Decision((record,), msgspec.structs.replace(after, partition_epoch=epoch))


def _check_leader(state: PartitionState, node_id: NodeId, change: IsrChange) -> None:
    if change.leader_epoch != state.leader_epoch:
        raise FencedLeaderEpoch(
            f"leader epoch {change.leader_epoch}, and it is {state.leader_epoch}"
        )
    if state.leader != node_id:
        raise NotLeader(
            f"node {state.leader} leads, not node {node_id}", (state.leader, state.leader_epoch)
        )
    if change.partition_epoch != state.partition_epoch:
        raise StalePartitionEpoch(
            f"partition epoch {change.partition_epoch}, and it is {state.partition_epoch}"
        )


def _check_members(metadata: Metadata, state: PartitionState, change: IsrChange) -> None:
    for member in change.isr:
        if member.node not in state.replicas:
            raise InvalidRequest(f"node {member.node} has no replica of this partition")
        node = metadata.nodes.get(member.node)
        is_there = node is not None and node.epoch == member.node_epoch
        joins = member.node not in state.isr
        if not is_there or (joins and not metadata.nodes.active(member.node)):
            raise IneligibleReplica(
                f"node {member.node} with epoch {member.node_epoch} is fenced, drains, or has"
                " registered again"
            )


def _with_isr(
    metadata: Metadata, state: PartitionState, change: IsrChange, members: set[NodeId]
) -> PartitionState:
    isr = in_order(state, members)
    elr = eligible_after(
        isr_before=state.isr,
        isr=isr,
        elr_before=state.elr,
        lost_data=change.lost_data,
        min_insync_replicas=metadata.topic_by_id(change.topic_id).settings.min_insync_replicas,
        replication_factor=len(state.replicas),
    )
    return msgspec.structs.replace(state, isr=isr, elr=in_order(state, elr))
