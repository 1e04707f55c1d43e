"""Three servers on a real etcd: no kill loses a schema, and two who register at once get one id."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import KafkaError, Producer

from tests.conformance.cluster_processes import NodeProcess
from tests.conformance.etcd_server import EtcdServers
from tests.conformance.test_nodes_on_etcd import has_all_replicas, three_nodes

WAIT_S = 60.0
Eventually = Callable[..., None]


def schema(number: int) -> dict[str, Any]:
    names = {f"f{each}": {"type": "string"} for each in range(number + 1)}
    text = {"type": "object", "properties": names, "additionalProperties": False}
    return {"schema": json.dumps(text), "schemaType": "JSON"}


def register(node: NodeProcess, number: int) -> tuple[int, int] | None:
    """Id and version; None if the node cannot say now."""
    try:
        reply = node.post("/registry/subjects/orders-value/versions", schema(number))
    except httpx.HTTPError:
        return None
    if reply.status_code >= 500:
        return None
    assert reply.status_code == 200, reply.text
    return reply.json()["id"], reply.json()["version"]


def register_at_once(nodes: list[NodeProcess], number: int) -> tuple[int, int]:
    """At all of them, until each has said what it is."""

    def insist(node: NodeProcess) -> tuple[int, int]:
        for _ in range(600):
            found = register(node, number)
            if found is not None:
                return found
        raise AssertionError(f"node {node.number} registers nothing")

    with ThreadPoolExecutor(len(nodes)) as threads:
        found = set(threads.map(insist, nodes))
    assert len(found) == 1, found
    return found.pop()


def codes(nodes: list[NodeProcess], *values: bytes) -> set[int | None]:
    """What a Kafka producer hears about each value, at every leader."""
    servers = ",".join(each.kafka for each in nodes)
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 0, "message.timeout.ms": 60_000}
    )
    found: set[int | None] = set()
    for value in values:
        for index in range(3):
            producer.produce(
                "orders",
                value,
                partition=index,
                on_delivery=lambda error, _: found.add(error and error.code()),
            )
    assert producer.flush(WAIT_S) == 0
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_schemas_and_validation_outlive_any_node(tmp_path: Path, eventually: Eventually):
    etcd = EtcdServers(tmp_path / "etcd")
    settings = {"goqueue.schema.validation": "full"}
    try:
        etcd.start()
        with three_nodes(tmp_path, etcd) as nodes:
            everybody = {1: "active", 2: "active", 3: "active"}
            eventually(lambda: all(each.states() == everybody for each in nodes), within_s=WAIT_S)
            made = nodes[0].post(
                "/topics", {"name": "orders", "partitions": 3, "settings": settings}
            )
            assert made.status_code == 201, made.text
            known = {0: register_at_once(nodes, 0)}
            eventually(lambda: has_all_replicas(nodes[0]), within_s=WAIT_S)
            for victim in nodes:
                number = len(known)
                victim.kill()
                others = [each for each in nodes if each is not victim]
                known[number] = register_at_once(others, number)
                for node in others:
                    for each, (schema_id, version) in known.items():
                        path = f"/registry/subjects/orders-value/versions/{version}"
                        shown = node.get(path)
                        assert shown["id"] == schema_id
                        assert json.loads(shown["schema"]) == json.loads(schema(each)["schema"])
                good = b"\0" + known[number][0].to_bytes(4) + b'{"f0": "x"}'
                assert codes(others, good) == {None}
                bad = b"\0" + known[0][0].to_bytes(4) + b'{"f0": 5}'
                assert codes(others, bad) == {KafkaError.INVALID_RECORD}
                victim.start()
                eventually(lambda: has_all_replicas(nodes[0]), within_s=WAIT_S)
            assert [each[0] for each in known.values()] == sorted(
                {each[0] for each in known.values()}
            )
            assert [each[1] for each in known.values()] == [1, 2, 3, 4]
    finally:
        etcd.stop()
