"""Stories of three nodes that each end badly with one rule less, told with the rule and without.

The planted bugs that random stories find are in `test_replication_bugs.py`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from goqueue.broker.replicas import ReplicaFetchers
from goqueue.broker.storage import bundle
from goqueue.cluster import replication
from goqueue.cluster.replication import Assessment, Follower, IsrProposal, Offline
from goqueue.model.ids import NodeId
from goqueue.server.kafka import replica_sessions
from goqueue.testing.sim import SimDeadlock
from tests.sim.planted import Plant, name_of, names_of
from tests.sim.replication_world import Cluster, Controller, Node, host_of

A, B, C = NodeId(1), NodeId(2), NodeId(3)  # A leads first: it is the preferred one

Story = Callable[[Cluster], None]


# --- stories ------------------------------------------------------------------------------------


def begin(cluster: Cluster) -> None:
    world = cluster.world
    world.run_until(lambda: len(cluster.acked) > 50, limit_s=10)
    assert cluster.controller.image.leader == A


def only_b_survives(cluster: Cluster) -> None:
    """The others come back after the controller had the time to elect B, if it may."""
    cluster.lose_power(A)
    cluster.lose_power(C)
    cluster.world.run_for(1.5)
    cluster.start(A)
    cluster.start(C)
    cluster.heal()


def b_restarts_and_the_others_die(cluster: Cluster) -> None:
    """B is in sync: all that was acknowledged is on its disk, above the watermark that it knows."""
    begin(cluster)
    cluster.lose_power(B)
    cluster.start(B)
    cluster.world.run_until(lambda: B in cluster.nodes and follows(cluster, B))
    only_b_survives(cluster)


def b_comes_back_with_an_empty_disk_and_the_others_die(cluster: Cluster) -> None:
    begin(cluster)
    cluster.lose_disk(B)
    cluster.start(B)
    cluster.world.run_until(lambda: B in cluster.nodes)
    only_b_survives(cluster)


def b_is_cut_off_and_the_controller_does_not_hear_of_it(cluster: Cluster) -> None:
    """A may want to go on without B, and C has all.  The controller may elect B all the same."""
    begin(cluster)
    cluster.controller.is_deaf = True
    cluster.world.fabric.cut(host_of(A), host_of(B))
    cluster.world.run_for(5.0)
    only_b_survives(cluster)


def b_joins_and_the_leader_does_not_hear_of_it(cluster: Cluster) -> None:
    begin(cluster)
    world, fabric = cluster.world, cluster.world.fabric
    fabric.cut(host_of(A), host_of(B))
    world.run_until(lambda: B not in cluster.controller.image.isr, limit_s=10)
    world.run_for(0.3)
    fabric.cut("controller", host_of(A), one_way=True)
    fabric.heal(host_of(A), host_of(B))
    world.run_until(lambda: B in cluster.controller.image.isr, limit_s=10)
    fabric.cut(host_of(A), host_of(B))
    world.run_for(1.0)
    only_b_survives(cluster)


STORIES: list[Story] = [
    b_restarts_and_the_others_die,
    b_comes_back_with_an_empty_disk_and_the_others_die,
    b_is_cut_off_and_the_controller_does_not_hear_of_it,
    b_joins_and_the_leader_does_not_hear_of_it,
]


def follows(cluster: Cluster, node: NodeId) -> bool:
    return isinstance(cluster.nodes[node].partition.role, Follower)


@pytest.mark.parametrize("story", STORIES)
def test_nothing_acknowledged_is_lost(story: Story):
    with Cluster("story") as cluster:
        story(cluster)


# --- the same with a bug ------------------------------------------------------------------------


def truncate_by_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """12: a log is cut at its high watermark instead of by epoch (KIP-101)."""

    async def prepare_to_follow(self: Node) -> None:
        await self.partition.truncate_to(self.log.high_watermark)

    patch.setattr(Node, "prepare_to_follow", prepare_to_follow)
    patch.setattr(Cluster, "note_opened", lambda *_, **__: None)


def stay_in_sync_with_an_empty_disk(patch: pytest.MonkeyPatch) -> None:
    """17: a node with an empty disk stays in the ISR."""
    patch.setattr(Controller, "drop_copies", lambda *_: None)


def ignore_who_joins(patch: pytest.MonkeyPatch) -> None:
    """9: the high watermark ignores a replica that joins."""
    patch_proposals(patch, lambda proposal: {"joining": frozenset()})


def shrink_before_it_is_granted(patch: pytest.MonkeyPatch) -> None:
    """10: an ISR that was proposed counts before it is granted."""
    patch_proposals(
        patch, lambda proposal: {"isr": proposal.role.isr & {each.node for each in proposal.isr}}
    )


def patch_proposals(
    patch: pytest.MonkeyPatch, change: Callable[[IsrProposal], dict[str, frozenset[NodeId]]]
) -> None:
    """Have the leader take another role than it should while a proposal is on its way."""

    def propose_isr(logs: list[Assessment]) -> IsrProposal | None:
        proposal = replication.propose_isr(logs)
        if proposal is None:
            return None
        role = msgspec.structs.replace(proposal.role, **change(proposal))
        return msgspec.structs.replace(proposal, role=role)

    patch.setattr(bundle, "propose_isr", propose_isr)


PLANTED: dict[Plant, Story] = {
    truncate_by_high_watermark: b_restarts_and_the_others_die,
    stay_in_sync_with_an_empty_disk: b_comes_back_with_an_empty_disk_and_the_others_die,
    shrink_before_it_is_granted: b_is_cut_off_and_the_controller_does_not_hear_of_it,
    ignore_who_joins: b_joins_and_the_leader_does_not_hear_of_it,
}


@pytest.mark.parametrize(("plant", "story"), PLANTED.items(), ids=names_of(PLANTED))
def test_with_a_planted_bug_something_is(
    plant: Plant, story: Story, monkeypatch: pytest.MonkeyPatch
):
    plant(monkeypatch)
    with pytest.raises((AssertionError, SimDeadlock)), Cluster("story") as cluster:
        story(cluster)


# --- a leader that lacks committed records --------------------------------------------------------


def elect_with_an_empty_disk(cluster: Cluster, *, is_unclean: bool) -> None:
    """Against all rules, C leads."""
    begin(cluster)
    cluster.lose_disk(C)
    cluster.start(C)
    cluster.world.run_until(lambda: C in cluster.nodes)
    cluster.checks_commits = False
    cluster.controller.elect_wrongly(C, is_unclean=is_unclean)
    cluster.world.run_for(2.0)


def test_replicas_freeze_rather_than_cut_what_was_committed():
    with Cluster("freeze") as cluster:
        elect_with_an_empty_disk(cluster, is_unclean=False)
        for node in (A, B):
            role = cluster.nodes[node].partition.role
            assert isinstance(role, Offline)
            assert "missing committed records" in role.reason
            assert cluster.nodes[node].log.end_offset > 50
            assert len(cluster.nodes[node].problems) == 1


def test_after_an_unclean_election_they_follow():
    with Cluster("freeze") as cluster:
        elect_with_an_empty_disk(cluster, is_unclean=True)
        assert follows(cluster, A)
        assert cluster.nodes[A].log.epochs.entries == cluster.nodes[C].log.epochs.entries


def cut_silently(patch: pytest.MonkeyPatch) -> None:
    """28: a follower cuts below its high watermark, though no election was unclean."""
    follow = ReplicaFetchers.follow

    def follow_anybody(self: ReplicaFetchers, *args: Any, is_unclean: bool = False) -> None:
        follow(self, *args, is_unclean=True)

    patch.setattr(ReplicaFetchers, "follow", follow_anybody)


@pytest.mark.parametrize("plant", [cut_silently], ids=name_of)
def test_a_follower_that_would_cut_silently_is_seen(plant: Plant, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_replicas_freeze_rather_than_cut_what_was_committed()


def test_a_leader_that_tells_nobody_where_logs_part_is_seen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replica_sessions, "find_divergence", lambda *_, **__: None)
    with pytest.raises((AssertionError, SimDeadlock)):
        test_after_an_unclean_election_they_follow()
