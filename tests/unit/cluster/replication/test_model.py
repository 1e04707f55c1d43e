"""One partition on three nodes that fail: nothing committed is lost, whatever happens.

And the suite would notice: each planted bug is found within a few seeds.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from goqueue.cluster import replication
from goqueue.cluster.replication import IsrProposal, Leader, Replicas
from goqueue.model.ids import NodeEpoch, NodeId, Offset
from tests.unit.cluster.replication.model import Controller, Node, Partition

EVENTS = 400
SEEDS = 80
SEEDS_MAX = 400  # within which a planted bug must show

Plant = Callable[[pytest.MonkeyPatch], object]


def test_nothing_committed_is_lost():
    tell_stories(SEEDS)


def count_end_instead_of_synced(patch: pytest.MonkeyPatch) -> None:
    rule = Replicas.high_watermark

    def high_watermark(
        self: Replicas, own: Offset, at_least: Offset, counts_synced: bool
    ) -> Offset:
        return rule(self, own, at_least, False)

    patch.setattr(Replicas, "high_watermark", high_watermark)


def ignore_who_joins(patch: pytest.MonkeyPatch) -> None:
    patch_proposals(patch, lambda proposal: {"joining": frozenset()})


def shrink_before_it_is_granted(patch: pytest.MonkeyPatch) -> None:
    patch_proposals(
        patch, lambda proposal: {"isr": proposal.role.isr & {each.node for each in proposal.isr}}
    )


def patch_proposals(
    patch: pytest.MonkeyPatch, change: Callable[[IsrProposal], dict[str, frozenset[NodeId]]]
) -> None:
    """Have the leader take another role than it should while a proposal is on its way."""
    propose = Replicas.propose

    def check_proposal(self: Replicas, **state: Any) -> IsrProposal | None:
        proposal = propose(self, **state)
        if proposal is None:
            return None
        role = msgspec.structs.replace(proposal.role, **change(proposal))
        return msgspec.structs.replace(proposal, role=role)

    patch.setattr(Replicas, "propose", check_proposal)


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def ack_offset(*, synced_offset: Offset, end_offset: Offset, flush: str) -> Offset:
        return end_offset

    patch.setattr(replication, "ack_offset", ack_offset)


def truncate_by_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def begin_following(self: Partition, node: Node) -> None:
        self.cut(node, node.high_watermark)

    patch.setattr(Partition, "begin_following", begin_following)
    patch.setattr(replication, "find_divergence", lambda *_, **__: None)


def lead_again_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    """After a restart that nobody noticed, with other records at the same offsets."""

    def register(self: Controller, node: NodeId, node_epoch: NodeEpoch) -> None:
        self.node_epochs[node] = node_epoch
        self.admit(node)

    patch.setattr(Controller, "register", register)


def commit_below_min_insync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leader, "has_enough_replicas", lambda *_: True)


@pytest.mark.parametrize(
    "plant",
    [
        count_end_instead_of_synced,
        ignore_who_joins,
        shrink_before_it_is_granted,
        acknowledge_before_the_sync,
        truncate_by_high_watermark,
        lead_again_in_the_same_epoch,
        commit_below_min_insync,
    ],
)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        tell_stories(SEEDS_MAX)


def tell_stories(seeds: int) -> None:
    for seed in range(seeds):
        partition = Partition(seed, nodes=5 if seed % 4 == 3 else 3)
        try:
            partition.run(EVENTS)
            partition.heal()
        except AssertionError as error:
            story = "\n".join(partition.history[-40:])
            raise AssertionError(f"seed {seed}: {error}\n{story}") from error
