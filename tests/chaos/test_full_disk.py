"""A disk that fills up: writes are refused with a reason, and go on when there is room."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from goqueue import Client
from tests.chaos.processes import Server, Witness, check_stopped
from tests.chaos.small_disk import small_file_system

SIZE_BYTES = 16 * 1024 * 1024
FILLER_BYTES = 8 * 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, if this process may make one."""
    with small_file_system(tmp_path / "disk", size_bytes=SIZE_BYTES) as place:
        yield place


@pytest.mark.parametrize("reserve_bytes", [0, 1_000_000])
def test_a_full_disk_refuses_writes_and_recovers_when_there_is_room(
    small_disk: Path, reserve_bytes: int, eventually: Callable[..., None]
):
    filler = small_disk / "filler"
    filler.write_bytes(bytes(FILLER_BYTES))
    server = Server(
        small_disk / "data", storage__free_bytes_min=reserve_bytes, storage__checkpoint_ms=100
    )
    witness = Witness("t", 2, seed=3)
    with server.running():
        witness.create(server, segment_bytes="100000")
        producer = witness.producer(server)
        while not witness.refused:
            for _ in range(200):
                witness.produce(producer)
            producer.poll(0.001)
        producer.flush(20)
        codes = {error.code() for error in witness.refused.values()}
        assert codes == {KafkaError.KAFKA_STORAGE_ERROR}
        assert server.process.poll() is None
        assert witness.check(server) >= witness.acks > 1000
        filler.unlink()

        def accepted() -> bool:
            before = witness.acks
            witness.produce(producer)
            producer.flush(20)
            return witness.acks > before

        eventually(accepted)
        witness.produce_until(producer, 1000)
        producer.flush(20)
        witness.check(server)
        with contextlib.suppress(FileNotFoundError):
            filler.unlink()
        server.kill()
    with server.running():
        witness.check(server)
        assert server.terminate(20) == 0
    check_stopped(small_disk / "data")


def test_a_server_starts_and_serves_from_a_full_disk(small_disk: Path):
    """Though a message is in flight, whose lease begins anew with a record."""
    server = Server(small_disk / "data", storage__free_bytes_min=0)
    witness = Witness("t", 2, seed=4)
    with server.running():
        witness.create(server, segment_bytes="100000")
        producer = witness.producer(server)
        witness.produce_until(producer, 1000)
        with Client(server.http) as client:
            held = client.receive("t", "workers", max_messages=1)
        assert len(held) == 1
        server.kill()
        witness.settle(producer)
    with (small_disk / "filler").open("wb", buffering=0) as filler:
        with contextlib.suppress(OSError):
            while filler.write(bytes(65536)):
                pass
        with contextlib.suppress(OSError):
            while filler.write(b"x"):
                pass
    with server.running():
        witness.check(server)
        producer = witness.producer(server)
        while not witness.refused:  # a page that is there already may take some more
            witness.produce(producer)
            producer.flush(20)
        (small_disk / "filler").unlink()
        witness.produce_until(producer, 100)
        assert server.terminate(20) == 0
    with server.running():
        witness.check(server)
