"""A byte that the disk spoils, and a server that was killed before its next checkpoint."""

from pathlib import Path

import pytest

from goqueue.log import open_log
from goqueue.model import batch as batches
from goqueue.model.settings import topic_settings
from goqueue.runtime import RealDisk
from tests.chaos.processes import Server, Witness, number_of
from tests.unit.log.test_damage import readable


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def last_segment(directory: Path) -> Path:
    return max(path for path in directory.glob("*.log") if path.stat().st_size)


def test_a_damaged_batch_costs_no_other_acknowledged_message(tmp_path: Path):
    server = Server(tmp_path / "data")
    witness = Witness("t", 1, seed=1)
    with server.running():
        witness.create(server)
        producer = witness.producer(server)
        witness.produce_until(producer, 2000)
        producer.flush(20)
        server.kill()
    path = last_segment(server.data_dir / "logs/t/0")
    header = batches.verified_headers(path.read_bytes())[3]
    flip(path, header.position + 80)
    with server.running():
        assert server.terminate(20) == 0
    disk = RealDisk()
    try:
        log, _ = open_log(disk, str(path.parent), topic_settings({}))
        found, refused = readable(log, cached=False)
    finally:
        disk.close()
    assert refused == [range(header.base_offset, header.next_offset)]
    numbers = {record.offset: number_of(record.value or b"") for record in found}
    acked = witness.acked[0].items()
    assert {o: n for o, n in acked if o not in refused[0]}.items() <= numbers.items()


@pytest.mark.parametrize("which", [-1, -3])
def test_damaged_metadata_stops_the_server_and_takes_no_data_with_it(tmp_path: Path, which: int):
    server = Server(tmp_path / "data")
    witnesses = [Witness(f"t{number}", 1, seed=number) for number in range(3)]
    with server.running():
        for witness in witnesses:
            witness.create(server)
            producer = witness.producer(server)
            witness.produce_until(producer, 100)
            producer.flush(20)
        server.kill()
    path = last_segment(server.data_dir / "logs/__metadata/0")
    header = batches.verified_headers(path.read_bytes())[which]
    flip(path, header.position + 70)
    with pytest.raises(AssertionError, match="goqueue doctor"):
        server.start()
    server.process.wait(20)
    flip(path, header.position + 70)
    with server.running():
        for witness in witnesses:
            assert witness.check(server) >= 100
