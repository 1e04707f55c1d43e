"""Where a partition's leader is: the tagged fields that Produce and Fetch share (KIP-951).

A client that asked the wrong node learns the right one from the refusal, without asking for
metadata.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from goqueue.wire.primitives import INT32, count_of, nullable_string, string

_LEADER: Final = struct.Struct(">iix")  # ends in an empty block of tagged fields


class LeaderAndEpoch(msgspec.Struct, frozen=True, gc=False):
    leader_id: int
    leader_epoch: int


class NodeEndpoint(msgspec.Struct, frozen=True, gc=False):
    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_leader(leader: LeaderAndEpoch) -> bytes:
    return _LEADER.pack(leader.leader_id, leader.leader_epoch)


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    out = [count_of(len(endpoints), flexible=True)]
    for endpoint in endpoints:
        out.append(INT32.pack(endpoint.node_id))
        out.append(string(endpoint.host, flexible=True))
        out.append(INT32.pack(endpoint.port))
        out.append(nullable_string(endpoint.rack, flexible=True))
        out.append(b"\x00")
    return b"".join(out)
