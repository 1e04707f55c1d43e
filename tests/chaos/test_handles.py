"""Connections use up the file handles of a server: it goes on, and nothing becomes read-only."""

import contextlib
import socket
from pathlib import Path

from tests.chaos.processes import Server, Witness

HANDLES = 256
CONNECTIONS = 600


def test_a_storm_of_connections_makes_no_partition_read_only(tmp_path: Path):
    server = Server(tmp_path / "data", handles=HANDLES, storage__checkpoint_ms=20)
    witness = Witness("t", 4, seed=5)
    with server.running(), contextlib.ExitStack() as storm:
        witness.create(server, segment_bytes="20000")
        producer = witness.producer(server)
        witness.produce_until(producer, 200)
        host, port = server.address.split(":")
        for number in range(CONNECTIONS):
            with contextlib.suppress(OSError):
                connection = socket.create_connection((host, int(port)), timeout=5)
                storm.callback(connection.close)
            if number % 20 == 0:
                witness.produce_until(producer, 50)
        witness.produce_until(producer, 500)
        assert not witness.refused
        storm.close()
        witness.check(server)
        assert "connections_max" in server.log()
        assert "read-only" not in server.log()
        assert server.terminate(20) == 0
