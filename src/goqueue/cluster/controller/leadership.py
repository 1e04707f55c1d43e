"""Leaders that are wanted elsewhere: preferred ones, those of a node that drains, unclean ones."""

from itertools import islice
from typing import Literal

import msgspec

from goqueue.cluster.controller.changes import (
    Outcome,
    change_of,
    changes_of,
    lead,
    settle,
    terms_of,
)
from goqueue.cluster.errors import ElectionNotNeeded, LeaderNotAvailable
from goqueue.cluster.metadata import NO_LEADER, Metadata, MetadataRecord, PartitionState
from goqueue.model.ids import NodeId, TopicId
from goqueue.model.machine import Decision

ElectionType = Literal["preferred", "unclean"]


def elect_leader(
    metadata: Metadata, topic_id: TopicId, index: int, election_type: ElectionType
) -> Decision[MetadataRecord, PartitionState]:
    """Raises `ElectionNotNeeded` or `LeaderNotAvailable`."""
    state = metadata.partition(topic_id, index)
    if election_type == "preferred":
        outcome = _prefer(metadata, state)
    else:
        outcome = _elect_unclean(metadata, topic_id, state)
    return Decision((change_of(topic_id, index, state, outcome),), outcome.state)


def _prefer(metadata: Metadata, state: PartitionState) -> Outcome:
    preferred = state.replicas[0]
    if state.leader == preferred:
        raise ElectionNotNeeded(f"node {preferred} leads, as is preferred")
    if not _can_lead(metadata, state, preferred):
        raise LeaderNotAvailable(f"node {preferred}, the preferred leader, is not in sync")
    return Outcome(lead(state, preferred))


def _elect_unclean(metadata: Metadata, topic_id: TopicId, state: PartitionState) -> Outcome:
    if state.leader != NO_LEADER:
        raise ElectionNotNeeded(f"node {state.leader} leads")
    terms = terms_of(metadata, topic_id, metadata.nodes.live)
    outcome = settle(state, msgspec.structs.replace(terms, allows_unclean=True))
    if outcome.state.leader == NO_LEADER:
        raise LeaderNotAvailable(f"none of the replicas {list(state.replicas)} answers")
    return outcome


def prefer_leaders(metadata: Metadata, limit: int) -> Decision[MetadataRecord, int]:
    """Give at most `limit` partitions back to their preferred leaders; gives how many."""

    def concerns(state: PartitionState) -> bool:
        preferred = state.replicas[0]
        return state.leader not in (preferred, NO_LEADER) and _can_lead(metadata, state, preferred)

    def follow(_topic_id: TopicId, state: PartitionState) -> Outcome:
        return Outcome(lead(state, state.replicas[0]))

    changes = list(islice(changes_of(metadata, concerns, follow), limit))
    return Decision(changes, len(changes))


def hand_over(metadata: Metadata, node_id: NodeId, limit: int) -> Decision[MetadataRecord, int]:
    """Have other nodes lead at most `limit` of its partitions; gives how many."""

    def successor(state: PartitionState) -> NodeId | None:
        others = (each for each in state.replicas if each != node_id)
        return next((each for each in others if _can_lead(metadata, state, each)), None)

    def concerns(state: PartitionState) -> bool:
        return state.leader == node_id and successor(state) is not None

    def follow(_topic_id: TopicId, state: PartitionState) -> Outcome:
        chosen = successor(state)
        assert chosen is not None
        return Outcome(lead(state, chosen))

    changes = list(islice(changes_of(metadata, concerns, follow), limit))
    return Decision(changes, len(changes))


def _can_lead(metadata: Metadata, state: PartitionState, node_id: NodeId) -> bool:
    return node_id in state.isr and metadata.nodes.active(node_id)
