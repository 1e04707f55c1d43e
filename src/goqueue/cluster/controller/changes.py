"""What becomes of a partition when nodes come or go: its leader, its ISR, its ELR.

An ISR that has become too small commits nothing, so whoever left it just before is still complete:
it stays eligible (ELR, KIP-966).
"""

from collections.abc import Callable, Collection, Iterable

import msgspec

from goqueue.cluster.metadata import NO_LEADER, Metadata, Nodes, PartitionChanged, PartitionState
from goqueue.cluster.replication import (
    Election,
    choose_leader,
    effective_min_insync,
    eligible_after,
)
from goqueue.model.ids import Epoch, NodeId, PartitionEpoch, TopicId

IsAvailable = Callable[[NodeId], bool]


class Terms(msgspec.Struct, frozen=True):
    """On which a leader is elected."""

    is_available: IsAvailable
    min_insync_replicas: int
    allows_unclean: bool = False
    lost_data: frozenset[NodeId] = frozenset()  # that are neither in sync nor eligible any more


class Outcome(msgspec.Struct, frozen=True):
    state: PartitionState
    is_unclean: bool = False


def terms_of(
    metadata: Metadata,
    topic_id: TopicId,
    is_available: IsAvailable,
    lost_data: Collection[NodeId] = (),
) -> Terms:
    settings = metadata.topic_by_id(topic_id).settings
    return Terms(
        is_available,
        settings.min_insync_replicas,
        settings.unclean_leader_election_enable,
        frozenset(lost_data),
    )


def settle(state: PartitionState, terms: Terms, *, new_epoch: bool = False) -> Outcome:
    """Keep the leader if it is available and has lost nothing, and elect one otherwise.

    With `new_epoch` elect in any case: the leader may have lost its memory of the epoch.
    """
    isr = [each for each in state.isr if each not in terms.lost_data]
    elr = [each for each in state.elr if each not in terms.lost_data]
    if not new_epoch and state.leader in isr and terms.is_available(state.leader):
        in_sync = frozenset(each for each in isr if terms.is_available(each))
        return Outcome(_replace_isr(state, Election(state.leader, in_sync), terms))
    election = choose_leader(
        state.replicas,
        isr=isr,
        elr=elr,
        last_known_leader=state.last_known_elr[0] if state.last_known_elr else None,
        is_available=terms.is_available,
        allows_unclean=terms.allows_unclean,
    )
    after = _replace_isr(state, election, terms)
    if election.leader is None and state.leader == NO_LEADER:
        return Outcome(after)
    return Outcome(_replace_leader(state, after, election.leader), election.is_unclean)


def _replace_isr(state: PartitionState, election: Election, terms: Terms) -> PartitionState:
    """With the ISR of the election, and the ELR that follows from it."""
    isr = in_order(state, election.isr)
    if election.is_unclean:
        elr: Collection[NodeId] = ()  # they have what the leader may lack
    else:
        elr = eligible_after(
            isr_before=state.isr,
            isr=isr,
            elr_before=state.elr,
            lost_data=terms.lost_data,
            min_insync_replicas=terms.min_insync_replicas,
            replication_factor=len(state.replicas),
        )
    return msgspec.structs.replace(state, isr=isr, elr=in_order(state, elr))


def _replace_leader(
    before: PartitionState, after: PartitionState, leader: NodeId | None
) -> PartitionState:
    """By another one, or in another epoch."""
    known = before.last_known_elr if before.leader == NO_LEADER else (before.leader,)
    return msgspec.structs.replace(
        after,
        leader=NO_LEADER if leader is None else leader,
        leader_epoch=Epoch(before.leader_epoch + 1),
        last_known_elr=known if leader is None else (),
    )


def lead(state: PartitionState, leader: NodeId | None) -> PartitionState:
    """By a node that is in sync, or by nobody, in a new epoch."""
    return _replace_leader(state, state, leader)


def in_order(state: PartitionState, nodes: Collection[NodeId]) -> Nodes:
    return tuple(each for each in state.replicas if each in nodes)


def change_of(
    topic_id: TopicId, index: int, before: PartitionState, outcome: Outcome
) -> PartitionChanged:
    """The record that makes the one of the other."""
    after = outcome.state
    differing = {
        name: value for name in _FIELDS if (value := getattr(after, name)) != getattr(before, name)
    }
    epoch = PartitionEpoch(before.partition_epoch + 1)
    return PartitionChanged(topic_id, index, epoch, **differing, unclean=outcome.is_unclean)


_FIELDS = (
    "leader",
    "leader_epoch",
    "isr",
    "elr",
    "last_known_elr",
    "replicas",
    "adding",
    "removing",
)


def void_elrs(
    metadata: Metadata, topic_id: TopicId, min_insync_replicas: int
) -> Iterable[PartitionChanged]:
    """If fewer must be in sync, ISRs that were too small commit again, and their ELRs lack it."""
    for index, state in enumerate(metadata.partitions.of(topic_id)):
        after = without_void_elr(state, min_insync_replicas)
        if after != state:
            yield change_of(topic_id, index, state, Outcome(after))


def without_void_elr(state: PartitionState, min_insync_replicas: int) -> PartitionState:
    needed = effective_min_insync(min_insync_replicas, len(state.replicas))
    if not state.elr or len(state.isr) < needed:
        return state
    return msgspec.structs.replace(state, elr=())


def changes_of(
    metadata: Metadata,
    concerns: Callable[[PartitionState], bool],
    follow: Callable[[TopicId, PartitionState], Outcome],
) -> Iterable[PartitionChanged]:
    """Of all partitions that the matter concerns, as far as anything changes."""
    for topic_id, index, state in metadata.partitions:
        if concerns(state):
            outcome = follow(topic_id, state)
            if outcome.state != state:
                yield change_of(topic_id, index, state, outcome)
