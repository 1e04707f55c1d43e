"""Real processes, killed under load: what was acked is there, once, in order, byte for byte."""

from pathlib import Path

import pytest

from tests.chaos.processes import Server, Witness, check_stopped

PARTITIONS = 5
STOP_S = 20.0  # shutdown_seconds and a little
SMALL_SEGMENTS = {"segment_bytes": "100000", "index_interval_bytes": "1000"}


def killed_often(data_dir: Path, times: int) -> None:
    server = Server(data_dir, storage__checkpoint_ms=200)
    witness = Witness("t", PARTITIONS, seed=times)
    for life in range(times):
        with server.running():
            if life == 0:
                witness.create(server, **SMALL_SEGMENTS)
            elif life % 5 == 0:
                witness.check(server)
            producer = witness.producer(server)
            witness.produce_until(producer, witness.chance.choice((20, 300, 3000)))
            server.kill()
            witness.settle(producer)
    with server.running():
        found = witness.check(server)
        assert found >= witness.acks
        producer = witness.producer(server)
        witness.produce_until(producer, 100)
        witness.settle(producer)
        assert server.terminate(STOP_S) == 0
    check_stopped(data_dir)


def test_what_was_acked_outlives_a_few_kills(tmp_path: Path):
    killed_often(tmp_path / "data", times=4)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_was_acked_outlives_fifty_kills(tmp_path: Path):
    killed_often(tmp_path / "data", times=50)


def test_a_server_told_to_stop_under_load_does_so_and_leaves_nothing_to_verify(tmp_path: Path):
    server = Server(tmp_path / "data")
    witness = Witness("t", PARTITIONS, seed=1)
    for life in range(2):
        with server.running():
            if life == 0:
                witness.create(server, **SMALL_SEGMENTS)
            producer = witness.producer(server)
            witness.produce_until(producer, 2000)
            for _ in range(500):
                witness.produce(producer)
            assert server.terminate(STOP_S) == 0, server.log()
            witness.settle(producer)
        check_stopped(tmp_path / "data")
    with server.running():
        assert witness.check(server) >= witness.acks
