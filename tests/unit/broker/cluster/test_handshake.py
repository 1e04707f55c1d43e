"""Two nodes tell each other who they are, without telling the secret."""

import msgspec
import pytest

from goqueue.broker.cluster.handshake import (
    Identity,
    answer_hello,
    check_proof,
    check_reply,
    load_secret,
    say_hello,
)
from goqueue.model.errors import (
    DuplicateNodeId,
    InvalidSetting,
    Unauthorized,
    UnsupportedVersion,
    WrongCluster,
)
from goqueue.model.ids import NodeId
from goqueue.testing.sim import SimDisk
from goqueue.wire.node_messages import Prove

SECRET = b"a secret of sixteen bytes"
SERVER = Identity(NodeId(1), "cluster", SECRET)
CLIENT = Identity(NodeId(2), "cluster", SECRET)


def meet(client: Identity, server: Identity) -> None:
    hello = say_hello(client, b"a" * 16)
    reply = answer_hello(server, hello, b"b" * 16)
    check_proof(server, hello, reply, check_reply(client, hello, reply))


def test_nodes_of_one_cluster_meet():
    meet(CLIENT, SERVER)


def test_a_node_that_has_joined_no_cluster_is_let_in():
    meet(msgspec.structs.replace(CLIENT, cluster_id=""), SERVER)


def test_nodes_without_a_secret_meet():
    meet(Identity(NodeId(2), "c", b""), Identity(NodeId(1), "c", b""))


@pytest.mark.parametrize("secret", [b"", b"another secret of a node"])
def test_the_node_that_asks_sees_a_wrong_secret(secret: bytes):
    with pytest.raises(Unauthorized, match="different secrets"):
        meet(CLIENT, msgspec.structs.replace(SERVER, secret=secret))


def test_the_node_that_is_asked_sees_a_wrong_secret():
    hello = say_hello(CLIENT, b"a" * 16)
    reply = answer_hello(SERVER, hello, b"b" * 16)
    for guess in (b"", reply.proof, b"x" * 32):
        with pytest.raises(Unauthorized, match="node 2: the two nodes have different secrets"):
            check_proof(SERVER, hello, reply, Prove(guess))


def test_a_proof_is_of_no_use_a_second_time():
    hello = say_hello(CLIENT, b"a" * 16)
    first = answer_hello(SERVER, hello, b"b" * 16)
    second = answer_hello(SERVER, hello, b"c" * 16)
    with pytest.raises(Unauthorized):
        check_proof(SERVER, hello, second, check_reply(CLIENT, hello, first))


def test_a_node_of_another_cluster_is_refused():
    with pytest.raises(WrongCluster, match="node 2 belongs to cluster other"):
        meet(msgspec.structs.replace(CLIENT, cluster_id="other"), SERVER)


def test_a_second_node_with_the_same_number_is_refused():
    with pytest.raises(DuplicateNodeId, match="node_id"):
        meet(msgspec.structs.replace(CLIENT, node_id=NodeId(1)), SERVER)


def test_a_node_of_another_version_is_refused():
    hello = msgspec.structs.replace(say_hello(CLIENT, b""), protocol=99)
    with pytest.raises(UnsupportedVersion, match="version 99"):
        answer_hello(SERVER, hello, b"")


def test_a_secret_is_a_file_with_enough_in_it():
    disk = SimDisk(0)
    assert load_secret(disk, "") == b""
    with pytest.raises(InvalidSetting, match="no file"):
        load_secret(disk, "/secret")
    disk.replace_file("/secret", b"short\n")
    with pytest.raises(InvalidSetting, match="5 bytes"):
        load_secret(disk, "/secret")
    disk.replace_file("/secret", SECRET + b"\n")
    assert load_secret(disk, "/secret") == SECRET
