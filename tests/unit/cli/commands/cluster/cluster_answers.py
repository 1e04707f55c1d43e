"""What a server answers, made by hand."""

from typing import Any

NODE = {
    "node_id": 1,
    "state": "active",
    "is_controller": True,
    "addresses": {"kafka": "127.0.0.1:9092"},
    "rack": "",
    "machine": "m",
    "leaders": 1,
    "replicas": 1,
    "epoch": 1,
    "incarnation": 1,
    "directory_id": "d",
}
PLACE = {
    "partition": 0,
    "leader": 1,
    "leader_epoch": 0,
    "partition_epoch": 0,
    "replicas": [1, 2],
    "isr": [1],
    "elr": [],
    "offline": [2],
    "adding": [],
    "removing": [],
}
TOPIC = {
    "name": "t",
    "topic_id": "i",
    "replication_factor": 2,
    "min_insync_replicas": 2,
    "partitions": [PLACE, {**PLACE, "partition": 1, "leader": None}],
}
QUORUM = {
    "log": "__metadata",
    "is_controller": True,
    "term": 3,
    "end_offset": 9,
    "committed_offset": 9,
    "members": [{"name": "this node", "address": "", "is_leader": True, "problem": ""}],
}


def health(status: str) -> dict[str, Any]:
    counts = dict.fromkeys(
        (
            *("nodes", "active_nodes", "topics", "partitions", "under_replicated"),
            *("under_min_isr", "offline", "not_preferred", "reassigning"),
        ),
        1,
    )
    return {"status": status, "node_id": 1, "is_controller": True, "controller_id": 1, **counts}


COPY = {
    "node_id": 2,
    "offset": 10,
    "end_offset": 30,
    "offsets_left": 20,
    "bytes_left": 2000,
    "bytes_total": 3000,
    "bytes_per_sec": 100.0,
    "seconds_left": 20.0,
}
MOVING = {
    "topic": "t",
    "partition": 0,
    "state": "catching_up",
    "leader": 1,
    "replicas": [2, 1],
    "adding": [2],
    "removing": [1],
    "copies": [COPY],
}


def moving(*partitions: dict[str, Any]) -> dict[str, Any]:
    return {
        "partitions": list(partitions),
        "throttle_bytes_per_sec": 100,
        "bytes_left": 2000 * len(partitions),
        "bytes_total": 3000,
        "bytes_per_sec": 100.0,
        "seconds_left": 20.0,
    }


COORDINATORS: list[dict[str, Any]] = [
    {
        "kind": "transactions",
        "shard": shard,
        "node_id": node_id,
        "epoch": 3,
        "replicas": [2, 3, 1],
        "isr": [] if node_id is None else [2, 1],
        "size": None if node_id is None else 17,
    }
    for shard, node_id in enumerate((2, None))
]
