"""A server in a process of its own, known by its HTTP address."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from goqueue.model.config import Config, HttpConfig, KafkaConfig, TopicsConfig
from tests.conformance.server import Server

LONG_POLL_MS_MAX = 50  # nobody who waits here waits for anything
TOPICS = TopicsConfig(auto_create=False, partitions=1, partitions_max=8)


@contextlib.contextmanager
def http_server(directory: Path) -> Iterator[tuple[Server, str, int]]:
    """The server, its host and its port; its topics are few and small, so that only leaks grow."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
    config = Config(
        data_dir=str(directory),
        kafka=KafkaConfig(listen="127.0.0.1:0"),
        http=HttpConfig(listen=f"{host}:{port}", long_poll_ms_max=LONG_POLL_MS_MAX),
        topics=TOPICS,
    )
    server = Server(config).start()
    try:
        yield server, host, port
        assert server.is_running, server.log()
        server.stop()
        assert "Traceback" not in server.log(), server.log()
    finally:
        server.kill()
