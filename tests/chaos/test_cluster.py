"""Three real nodes, killed and stopped under load: what was acked is there once, on every replica.

Node 1 keeps the metadata alone and is left in peace: while it is down, no leader moves.
"""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.client import Client
from tests.chaos.cluster import (
    FOLLOW_S,
    NODES,
    Cluster,
    ClusterWitness,
    Fault,
    Reader,
    check_replicas_agree,
)

PARTITIONS = 6
STOP_S = 30.0
KINDS = ("kill", "stop", "wipe")
ROUNDS = int(os.environ.get("ROUNDS", "30"))
Eventually = Callable[..., None]


def in_sync(cluster: Cluster, topic: str) -> bool:
    with Client(cluster.nodes[1].http) as client:
        (found,) = [each for each in client.topic_places() if each.name == topic]
        return all(len(each.isr) == NODES and each.leader is not None for each in found.partitions)


def survive(directory: Path, rounds: int, eventually: Eventually) -> list[tuple[str, float]]:
    """Gives each fault with the longest time without an ack."""
    cluster = Cluster(directory, topics__replication=NODES)
    witness = ClusterWitness("t", PARTITIONS, seed=rounds)
    gaps: list[tuple[str, float]] = []
    with cluster.running():
        witness.create_replicated(cluster)
        producer = witness.repeating_producer(cluster)
        with Reader(cluster, "t", PARTITIONS) as reader:
            for _, kind in zip(range(rounds), itertools.cycle(KINDS), strict=False):
                witness.produce_until(producer, 200)
                eventually(lambda: in_sync(cluster, "t"), within_s=FOLLOW_S)
                witness.forget_gap()
                fault = Fault(cluster, witness.chance, kind)
                witness.produce_until(producer, 200)
                fault.begin()
                witness.produce_until(producer, witness.chance.choice((500, 2000, 5000)))
                gaps.append((fault.kind, witness.gap_s))
                fault.end()
            witness.produce_until(producer, 500)
            assert producer.flush(FOLLOW_S) == 0, cluster.log()
            assert witness.refused == {}, cluster.log()
            eventually(lambda: reader.has_seen(witness), within_s=FOLLOW_S)
            eventually(lambda: in_sync(cluster, "t"), within_s=FOLLOW_S)
        reader.check(witness)
        assert witness.check(cluster.nodes[1]) == witness.numbers
        assert cluster.stop(STOP_S) == [0] * NODES, cluster.log()
    check_replicas_agree(cluster, "t", PARTITIONS)
    return gaps


@pytest.mark.timeout(180)
def test_what_was_acked_outlives_a_killed_and_a_stopped_node(
    tmp_path: Path, eventually: Eventually
):
    survive(tmp_path, 2, eventually)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_what_was_acked_outlives_many_killed_and_stopped_nodes(
    tmp_path: Path, eventually: Eventually
):
    """`make chaos-cluster ROUNDS=100`; shows how long producers waited."""
    gaps = survive(tmp_path, ROUNDS, eventually)
    for kind in KINDS:
        found = sorted(gap for each, gap in gaps if each == kind)
        if found:
            middle, longest = found[len(found) // 2], found[-1]
            print(f"{kind}: {len(found)} times, no ack for {middle:.2f} s, at most {longest:.2f} s")
