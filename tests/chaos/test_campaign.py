"""A cluster of three under all kinds of clients and faults: nothing is lost, doubled or torn.

`make chaos-cluster ROUNDS=100` runs the long one; `KINDS="kill stop"` chooses faults, `SEED=n`
repeats the choice of nodes.  What the clients saw is in `HISTORIES` (a folder) as JSON lines.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.chaos.campaign import Campaign
from tests.chaos.cluster import NODES, Cluster
from tests.chaos.faults import KINDS
from tests.conformance.etcd_server import EtcdServers

ROUNDS = int(os.environ.get("ROUNDS", "30"))
SEED = int(os.environ.get("SEED", str(int(time.time()) % 100_000)))
CHOSEN = tuple(os.environ.get("KINDS", "").split()) or KINDS
STOP_S = 60.0

Eventually = Callable[..., None]


def histories_in(directory: Path) -> Path:
    given = os.environ.get("HISTORIES")
    return Path(given) if given else directory / "histories"


def run(
    cluster: Cluster, directory: Path, kinds: Sequence[str], rounds: int, eventually: Eventually
) -> None:
    campaign = Campaign(cluster, histories_in(directory), SEED)
    print(f"SEED={SEED} HISTORIES={histories_in(directory)}", flush=True)
    with cluster.running():
        campaign.create_topics()
        try:
            campaign.run(kinds, rounds, eventually)
        finally:
            print(*campaign.gaps.lines(), sep="\n", flush=True)
        assert cluster.stop(STOP_S) == [0] * NODES, cluster.log()
    campaign.check_replicas()


@pytest.mark.timeout(300)
def test_all_clients_outlive_a_killed_and_a_stopped_node(tmp_path: Path, eventually: Eventually):
    run(Cluster(tmp_path, topics__replication=NODES), tmp_path, ("kill", "stop"), 2, eventually)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.flaky(reruns=0)
def test_all_clients_outlive_all_faults(tmp_path: Path, eventually: Eventually):
    run(Cluster(tmp_path, topics__replication=NODES), tmp_path, CHOSEN, ROUNDS, eventually)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.flaky(reruns=0)
def test_all_clients_outlive_all_faults_on_etcd(tmp_path: Path, eventually: Eventually):
    etcd = EtcdServers(tmp_path / "etcd")
    etcd.start()
    try:
        quorum = f"{etcd.endpoints[0].replace('http:', 'etcd:')}/chaos"
        cluster = Cluster(tmp_path, quorum, topics__replication=NODES)
        run(cluster, tmp_path, CHOSEN, ROUNDS, eventually)
    finally:
        etcd.stop()
