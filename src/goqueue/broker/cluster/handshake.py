"""How two nodes find out that they belong together, and to what.

    A ── Hello(node id, cluster id, nonce a) ──────────────────────────────> B
    A <─ HelloReply(node id, cluster id, nonce b, proof that B knows the secret) ── B
    A ── Prove(proof that A knows the secret) ─────────────────────────────> B

The shared secret never travels.  A proof is a keyed hash over both nonces and all that both said,
with a word for the side it comes from: neither an old proof nor one's own sent back is of use.
What follows is neither encrypted nor signed: whoever can change bytes on the way can do anything.

On loopback the secret may be empty: whoever is on this machine reaches the files as well.
"""

import hmac
from typing import Final

import msgspec

from goqueue.model.errors import (
    DuplicateNodeId,
    InvalidSetting,
    Unauthorized,
    UnsupportedVersion,
    WrongCluster,
)
from goqueue.model.ids import NodeId
from goqueue.runtime import Disk
from goqueue.wire.node_messages import PROTOCOL, Hello, HelloReply, Prove

NONCE_BYTES: Final = 16
SECRET_BYTES_MIN: Final = 16
WRONG_SECRET: Final = "the two nodes have different secrets (setting cluster.secret_file)"


class Identity(msgspec.Struct, frozen=True):
    """Who this node is, for other nodes."""

    node_id: NodeId
    cluster_id: str  # empty until it has joined one
    secret: bytes


def load_secret(disk: Disk, path: str) -> bytes:
    """Blocking."""
    if not path:
        return b""
    content = disk.read_file(path)
    if content is None:
        raise InvalidSetting(f"cluster.secret_file: there is no file {path}")
    secret = content.strip()
    if len(secret) < SECRET_BYTES_MIN:
        raise InvalidSetting(
            f"cluster.secret_file: {path} has {len(secret)} bytes; a secret has at least"
            f" {SECRET_BYTES_MIN} (`openssl rand -hex 32` makes one)"
        )
    return secret


# --- the node that asks ---------------------------------------------------------------------------


def say_hello(me: Identity, nonce: bytes) -> Hello:
    return Hello(PROTOCOL, me.node_id, me.cluster_id, nonce)


def check_reply(me: Identity, hello: Hello, reply: HelloReply) -> Prove:
    """What to answer; raises unless the other node is one of this cluster."""
    if not hmac.compare_digest(reply.proof, _proof(me.secret, "server", hello, reply)):
        raise Unauthorized(f"node {reply.node_id}: {WRONG_SECRET}")
    _check_cluster(me.cluster_id, reply.cluster_id, reply.node_id)
    return Prove(_proof(me.secret, "client", hello, reply))


# --- the node that is asked -----------------------------------------------------------------------


def answer_hello(me: Identity, hello: Hello, nonce: bytes) -> HelloReply:
    """Raises unless the other node may be one of this cluster."""
    if hello.protocol != PROTOCOL:
        raise UnsupportedVersion(
            f"node {hello.node_id} speaks version {hello.protocol} of the cluster's protocol, and"
            f" node {me.node_id} version {PROTOCOL}"
        )
    _check_cluster(me.cluster_id, hello.cluster_id, hello.node_id)
    if hello.node_id == me.node_id:
        raise DuplicateNodeId(
            f"node {me.node_id} is there already: give each node a number of its own"
            " (setting node_id)"
        )
    reply = HelloReply(me.node_id, me.cluster_id, nonce, b"")
    return msgspec.structs.replace(reply, proof=_proof(me.secret, "server", hello, reply))


def check_proof(me: Identity, hello: Hello, reply: HelloReply, prove: Prove) -> None:
    if not hmac.compare_digest(prove.proof, _proof(me.secret, "client", hello, reply)):
        raise Unauthorized(f"node {hello.node_id}: {WRONG_SECRET}")


def _check_cluster(mine: str, theirs: str, node_id: int) -> None:
    if mine and theirs and mine != theirs:
        raise WrongCluster(
            f"node {node_id} belongs to cluster {theirs}, and this is cluster {mine}: the seeds or"
            " the data directory are those of another cluster"
        )


def _proof(secret: bytes, side: str, hello: Hello, reply: HelloReply) -> bytes:
    said = (
        side,
        (hello.protocol, hello.node_id, hello.cluster_id, hello.nonce),
        (reply.node_id, reply.cluster_id, reply.nonce),
    )
    return hmac.digest(secret or b"loopback", msgspec.msgpack.encode(said), "sha256")
