"""The stories of `test_replication_sim.py` would notice: each planted bug is found within a few.

Those that need a certain sequence of events are in `test_replication_stories.py`.
"""

from typing import Any

import pytest

from goqueue.broker.replicas import ReplicaFetchers, replica
from goqueue.broker.replicas.replica import ReplicaLog
from goqueue.cluster.replication import Replicas
from goqueue.log import Log, derived_state, log
from goqueue.log.aborted import AbortIndex
from goqueue.log.producers import Producers
from goqueue.model.ids import Offset, TopicIdPartition
from goqueue.testing.sim import SimDeadlock
from tests.sim.planted import Plant, names_of
from tests.sim.replication_world import Cluster, Faults, Node

SEEDS_MAX = 60
STEPS = 14


def count_end_instead_of_synced(patch: pytest.MonkeyPatch) -> None:
    """8: the high watermark counts what no disk has yet."""
    rule = Replicas.high_watermark

    def high_watermark(
        self: Replicas, own: Offset, at_least: Offset, counts_synced: bool
    ) -> Offset:
        ends = [each.end_offset for each in self._counted]
        return rule(self, max([own, *ends]), at_least, False)

    patch.setattr(Replicas, "high_watermark", high_watermark)


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """11: a follower acknowledges before its sync."""

    def ack_offset(*, synced_offset: Offset, end_offset: Offset, flush: str) -> Offset:
        return end_offset

    patch.setattr(replica, "ack_offset", ack_offset)
    patch.setattr(ReplicaLog, "needs_sync", False)
    patch.setattr(Node, "note_asked", lambda *_: None)  # it would say so at once


def ask_the_old_leader_on(patch: pytest.MonkeyPatch) -> None:
    """13: a follower fetches from the old leader after a new epoch."""

    async def stop(self: ReplicaFetchers, key: TopicIdPartition) -> None:
        self._replicas.pop(key, None)

    patch.setattr(ReplicaFetchers, "stop", stop)
    patch.setattr(ReplicaLog, "is_following", property(lambda self: not self.is_stopped))


def begin_to_lead_without_a_note(patch: pytest.MonkeyPatch) -> None:
    """14: the start of an epoch is not synced before the first write."""
    patch.setattr(Log, "store_epochs", lambda *_: None)


def learn_nothing_of_producers(patch: pytest.MonkeyPatch) -> None:
    """15: followers do not take in the state of producers."""

    def note_batch(_producers: Producers, *rest: Any) -> None:
        derived_state.note_batch(Producers(), *rest)

    patch.setattr(log, "note_batch", note_batch)


def keep_the_abort_index(patch: pytest.MonkeyPatch) -> None:
    """16: the abort index is not cut with the log."""
    patch.setattr(AbortIndex, "cut", lambda *_: None)


PLANTED: list[Plant] = [
    count_end_instead_of_synced,
    acknowledge_before_the_sync,
    ask_the_old_leader_on,
    begin_to_lead_without_a_note,
    learn_nothing_of_producers,
    keep_the_abort_index,
]


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=names_of(PLANTED))
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch)
    assert any(is_found(seed) for seed in range(SEEDS_MAX)), "nobody noticed"


def is_found(seed: int) -> bool:
    try:
        with Cluster(seed) as cluster:
            Faults(cluster).run(STEPS)
            cluster.heal()
    except (AssertionError, ExceptionGroup, SimDeadlock):
        return True
    return False
