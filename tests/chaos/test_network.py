"""Three nodes on a network that is cut, slow and lossy: what was acked is there, once.

`make chaos-network ROUNDS=12`; needs root.  Where the kernel has no netem, delay and loss are those
of a switch in user space (`cables.py`), in a test of its own: it takes a good part of a core.
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.chaos.cables import Trouble
from tests.chaos.campaign import Gaps
from tests.chaos.cluster import FOLLOW_S, NODES, Cluster, ClusterWitness
from tests.chaos.load.streams import StreamLoad
from tests.chaos.network import Network, cluster_on, network

ROUNDS = int(os.environ.get("ROUNDS", "12"))
SEED = int(os.environ.get("SEED", "1"))
PARTITIONS = 6
HOLD_S = (1.5, 6.0)
PATIENT_S = 120.0
STOP_S = 60.0
CUTS = ("isolate", "deaf", "one-way", "isolate-controller", "pair")
DISTURBANCES = ("delay", "loss")

Eventually = Callable[..., None]


def disturb(made: Network, kind: str, chance: random.Random) -> None:
    victim = chance.randint(1, NODES)
    others = [each for each in range(1, NODES + 1) if each != victim]
    match kind:
        case "isolate":  # from the other nodes; clients still reach it
            made.cut(victim, *others)
            for each in others:
                made.cut(each, victim)
        case "isolate-controller":
            made.cut(1)  # from everybody
        case "deaf":  # it hears nobody, and is heard
            made.cut(victim)
        case "one-way":
            made.cut(victim, others[0])
        case "pair":
            made.cut(victim, others[0])
            made.cut(others[0], victim)
        case "delay":
            made.disturb(Trouble(victim, delay=0.2, jitter=0.1))
        case _:
            made.disturb(Trouble(victim, loss=0.1, duplicate=0.02))


def survive(
    made: Network, cluster: Cluster, kinds: Sequence[str], rounds: int, eventually: Eventually
) -> None:
    witness, gaps, chance = ClusterWitness("t", PARTITIONS, SEED), Gaps(), random.Random(SEED)
    with cluster.running():
        witness.create_replicated(cluster)
        load = StreamLoad(cluster, witness, cluster.directory / "histories")
        load.start()
        eventually(lambda: witness.acks > 500, within_s=FOLLOW_S)
        for _, kind in zip(range(rounds), itertools.cycle(kinds), strict=False):
            eventually(cluster.is_whole, within_s=PATIENT_S)
            witness.forget_gap()
            disturb(made, kind, chance)
            time.sleep(chance.uniform(*HOLD_S))  # rule-ok: the fault lasts so long
            made.heal()
            eventually(lambda: witness.has_acked_everywhere, within_s=PATIENT_S)
            gaps.note(kind, witness.gap_s)
        load.end()
        eventually(cluster.is_whole, within_s=PATIENT_S)
        assert witness.check(cluster.nodes[1]) == witness.numbers
        print(*gaps.lines(), sep="\n")
        assert cluster.stop(STOP_S) == [0] * NODES, cluster.log()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.flaky(reruns=0)
def test_what_was_acked_outlives_a_broken_network(tmp_path: Path, eventually: Eventually):
    with network() as made:
        survive(made, cluster_on(made, tmp_path), CUTS, ROUNDS, eventually)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.flaky(reruns=0)
def test_what_was_acked_outlives_a_slow_and_lossy_network(tmp_path: Path, eventually: Eventually):
    with network(has_cables=True) as made:
        survive(made, cluster_on(made, tmp_path), DISTURBANCES, ROUNDS, eventually)
