"""Answers that differ from Apache Kafka's only where one node has less to tell.

Requests that no client library sends, or that it would not show as they came back.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.apis import ApiKey
from tests.conformance.raw import RawClient, raw_client
from tests.conformance.server import Server

INTERNAL = ("__groups", "__metadata", "__ledgers", "__transactions")
FETCH_BY_NAME = 12
EARLIEST_PENDING_UPLOAD = -6


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    with raw_client(server.host_and_port) as client:
        yield client


@pytest.mark.parametrize("name", INTERNAL)
def test_the_brokers_own_logs_are_hidden_from_every_request(client: RawClient, name: str):
    client.ask(ApiKey.OFFSET_FETCH, 9, groups=[], require_stable=False)
    named = client.ask(ApiKey.METADATA, topics=[{"name": name}]).topics[0]
    assert named.error_code is not ErrorCode.none
    everything = client.ask(ApiKey.METADATA, topics=None).topics
    assert name not in [topic.name for topic in everything]
    partition = {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
    listed = client.ask(
        ApiKey.LIST_OFFSETS,
        replica_id=-1,
        topics=[{"name": name, "partitions": [partition]}],
    )
    assert listed.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition
    fetched = fetch(client, name)
    assert fetched.partition_index == 0
    assert fetched.error_code is ErrorCode.unknown_topic_or_partition
    assert not fetched.records


def fetch(client: RawClient, name: str) -> Any:
    partition = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    answer = client.ask(
        ApiKey.FETCH,
        FETCH_BY_NAME,
        replica_id=-1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[{"topic": name, "partitions": [partition]}],
    )
    return answer.responses[0].partitions[0]


def test_nothing_waits_to_be_uploaded_to_tiered_storage(client: RawClient, topic: str):
    partition = {"partition_index": 0, "timestamp": EARLIEST_PENDING_UPLOAD}
    answer = client.ask(
        ApiKey.LIST_OFFSETS,
        11,
        replica_id=-1,
        topics=[{"name": topic, "partitions": [{**partition, "current_leader_epoch": -1}]}],
    )
    (found,) = answer.topics[0].partitions
    assert (found.error_code, found.offset) == (ErrorCode.none, -1)
