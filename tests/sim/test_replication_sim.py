"""Three nodes that copy each other's log, and all that fails between them and under them."""

from tests.sim.replication_world import Cluster, Faults

STEPS = 10


def test_what_was_acknowledged_stays_and_all_become_the_same(seed: int):
    with Cluster(seed) as cluster:
        Faults(cluster).run(STEPS)
        cluster.heal()
