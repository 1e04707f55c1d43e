"""Readiness: what makes a node not ready, and what is only told."""

from pathlib import Path

import httpx
import msgspec
import pytest

from goqueue.model.config import Config, StorageConfig
from goqueue.server.server import Node, running_node

CHECKS = [
    *("listeners", "disk", "internal_logs", "controller"),
    *("partitions", "dead_letters", "recovery"),
]


def config(tmp_path: Path, **storage: int) -> Config:
    tree = {"data_dir": str(tmp_path), "kafka": {"listen": "127.0.0.1:0"}}
    tree["http"] = {"listen": "127.0.0.1:0"}
    tree["topics"] = {"partitions": 1}
    found = msgspec.convert(tree, Config)
    return msgspec.structs.replace(found, storage=StorageConfig(**storage))


async def readyz(node: Node) -> tuple[int, str, dict[str, str]]:
    async with httpx.AsyncClient(base_url=f"http://{node.http}") as client:
        answer = await client.get("/readyz?verbose")
    body = answer.json()
    return answer.status_code, body["message"], body["checks"]


async def test_a_node_in_good_order_names_its_checks(tmp_path: Path):
    async with running_node(config(tmp_path)) as node:
        assert await readyz(node) == (200, "serving", dict.fromkeys(CHECKS, "pass"))


@pytest.mark.parametrize("log", ["__metadata", "__groups", "__transactions", "__ledgers"])
async def test_a_node_whose_own_log_is_read_only_is_not_ready(tmp_path: Path, log: str):
    async with running_node(config(tmp_path)) as node:
        partition = node.broker.partitions.find_open(log, 0)
        assert partition is not None
        partition.log.fail("fsync: Input/output error")
        status, message, checks = await readyz(node)
        assert status == 503
        assert f"{log} is read-only: fsync: Input/output error" in message
        assert log in checks["internal_logs"]


async def test_a_topic_that_is_read_only_is_a_warning(tmp_path: Path):
    async with running_node(config(tmp_path)) as node:
        await node.broker.create_topic("orders")
        (await node.broker.partition("orders", 0)).log.fail("Input/output error")
        status, message, checks = await readyz(node)
        assert (status, message) == (200, "serving")
        assert checks["partitions"] == "warning: read-only: orders-0"


async def test_a_node_without_room_is_not_ready(tmp_path: Path):
    async with running_node(config(tmp_path)) as node:
        node.broker.partitions.reconfigure(StorageConfig(free_bytes_min=2**62))
        await node.broker.partitions.room.look()
        status, message, checks = await readyz(node)
        assert status == 503
        assert "storage.free_bytes_min" in message
        assert "storage.free_bytes_min" in checks["disk"]
