"""The disk of one node of three is full, or slow: the cluster serves, and loses nothing."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.chaos.cluster import FOLLOW_S, NODES, Cluster, ClusterWitness, Reader
from tests.chaos.load.streams import StreamLoad
from tests.chaos.small_disk import small_file_system

SIZE_BYTES = 48 * 1024 * 1024
RESERVE_BYTES = 4 * 1024 * 1024
SLOW_MS = 500
SOURCE = Path(__file__).with_name("slow_fsync.c")
PARTITIONS = 6
VICTIM = 2
STOP_S = 60.0

Eventually = Callable[..., None]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, where node 2 has its data."""
    with small_file_system(tmp_path / "small", size_bytes=SIZE_BYTES) as place:
        yield place


@pytest.fixture
def slow_fsync(tmp_path: Path) -> Path:
    """A library that makes syncs slow, built."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    library = tmp_path / "slow_fsync.so"
    build = [compiler, "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(build, check=True)
    return library


@contextmanager
def producing(
    cluster: Cluster, directory: Path, eventually: Eventually
) -> Iterator[ClusterWitness]:
    """A producer that goes on until the block ends; then all is there once, where it was said."""
    witness = ClusterWitness("t", PARTITIONS, seed=1)
    witness.create_replicated(cluster)
    load = StreamLoad(cluster, witness, directory / "histories")
    load.start()
    yield witness
    load.end()
    with Reader(cluster, "t", PARTITIONS) as reader:
        eventually(lambda: reader.has_seen(witness), within_s=FOLLOW_S)
    reader.check(witness)
    assert witness.check(cluster.nodes[1]) == witness.numbers


def count_leaders(cluster: Cluster, number: int) -> int:
    """How many partitions of the topic."""
    return [cluster.leader("t", index) for index in range(PARTITIONS)].count(number)


def more_acks(witness: ClusterWitness, count: int, eventually: Eventually) -> None:
    target = witness.acks + count
    eventually(lambda: witness.acks >= target, within_s=FOLLOW_S)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_leader_whose_disk_is_full_hands_over_and_returns(
    tmp_path: Path, small_disk: Path, eventually: Eventually
):
    cluster = Cluster(tmp_path, topics__replication=NODES, storage__free_bytes_min=RESERVE_BYTES)
    cluster.nodes[VICTIM].data_dir = small_disk / "data"
    filler = small_disk / "filler"
    with cluster.running():
        with producing(cluster, tmp_path, eventually) as witness:
            more_acks(witness, 500, eventually)
            assert count_leaders(cluster, VICTIM) > 0
            with filler.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(65_536)):
                    pass
            began = time.monotonic()
            eventually(lambda: count_leaders(cluster, VICTIM) == 0, within_s=FOLLOW_S)
            print(f"a full disk: others lead after {time.monotonic() - began:.1f} s")
            witness.forget_gap()
            more_acks(witness, 1000, eventually)
            assert cluster.nodes[VICTIM].process.poll() is None, cluster.log()
            filler.unlink()
            eventually(lambda: cluster.is_in_sync("t"), within_s=2 * FOLLOW_S)
            print(f"a full disk: no ack for {witness.gap_s:.2f} s at most, then in sync again")
        assert cluster.stop(STOP_S) == [0] * NODES, cluster.log()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_slow_disk_slows_nobody_for_long(
    tmp_path: Path, slow_fsync: Path, eventually: Eventually
):
    cluster = Cluster(tmp_path, topics__replication=NODES)
    switch = tmp_path / "slow"
    cluster.nodes[VICTIM].environment = {
        "LD_PRELOAD": str(slow_fsync),
        "SLOW_FSYNC_SWITCH": str(switch),
        "SLOW_FSYNC_MS": str(SLOW_MS),
    }
    with cluster.running():
        with producing(cluster, tmp_path, eventually) as witness:
            more_acks(witness, 500, eventually)
            before = count_leaders(cluster, VICTIM)
            switch.touch()
            witness.forget_gap()
            more_acks(witness, 3000, eventually)
            print(f"a slow disk: no ack for {witness.gap_s:.2f} s at most")
            after = count_leaders(cluster, VICTIM)
            print(f"a slow disk: its node led {before} partitions, now {after}")
            switch.unlink()
            more_acks(witness, 1000, eventually)
        assert cluster.stop(STOP_S) == [0] * NODES, cluster.log()
