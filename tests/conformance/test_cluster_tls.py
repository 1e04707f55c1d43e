"""Three processes with certificates are a cluster; who has none is not let in."""

import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.certificates import Authority
from tests.conformance.cluster_processes import running_cluster

LIMIT_S = 30.0


@pytest.mark.slow
def test_nodes_with_certificates_form_a_cluster_and_nobody_else_is_let_in(
    tmp_path: Path, eventually: Callable[..., None]
):
    authority = Authority(tmp_path)
    cert_file, key_file = authority.issue("node")
    settings: dict[str, Any] = {
        "cluster.cert_file": cert_file,
        "cluster.key_file": key_file,
        "cluster.ca_file": authority.file,
        "topics.replication": 3,
    }
    with running_cluster(tmp_path, 3, **settings) as nodes:
        eventually(lambda: list(nodes[2].states()) == [1, 2, 3])
        assert nodes[1].post("/topics", {"name": "t", "partitions": 3}).status_code == 201
        body = {"messages": [{"value": str(number)} for number in range(9)]}
        assert nodes[2].post("/topics/t/messages", body).is_success
        eventually(lambda: nodes[0].get("/topics/t")["total_messages"] == 9)
        for node in nodes:
            refuse_strangers(node.cluster, authority)


def refuse_strangers(address: str, authority: Authority) -> None:
    context = ssl.create_default_context(cafile=authority.file)
    assert not talk(address, context)
    context.load_cert_chain(*authority.issue("another-node"))
    assert talk(address, context)  # now it is heard, and answered


def talk(address: str, context: ssl.SSLContext) -> bytes:
    """What is answered; nothing if the connection is ended."""
    host, port = address.rsplit(":", 1)
    with (
        contextlib.suppress(ssl.SSLError, ConnectionError),
        socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection,
        context.wrap_socket(connection, server_hostname="localhost") as encrypted,
    ):
        encrypted.sendall(b"GET / HTTP/1.1\r\n\r\n")
        return encrypted.recv(1000)
    return b""
