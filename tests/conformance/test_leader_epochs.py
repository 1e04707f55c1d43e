"""The leader's epoch, as it is on disk, over the wire: in metadata, and in what is refused."""

from typing import Any

import pytest
from confluent_kafka import Producer
from kio.schema.errors import ErrorCode

from goqueue.log import open_log
from goqueue.model.batch import encode, verified_headers
from goqueue.model.ids import Epoch, Timestamp
from goqueue.model.record import Record
from goqueue.model.settings import topic_settings
from goqueue.runtime import real_environment
from goqueue.wire.apis import ApiKey
from goqueue.wire.messages import duration
from tests.conformance.clients import WAIT_S
from tests.conformance.raw import RawClient, raw_client
from tests.conformance.server import Server

TOPIC = "led"
EPOCH = 3
FETCH_BY_NAME = 12


@pytest.fixture
def led_before(own_server: Server) -> Server:
    """A server with a topic whose last records were written by the leader of epoch 3."""
    write(own_server)
    own_server.stop()
    disk = real_environment().disk
    log, _ = open_log(disk, f"{own_server.data_dir}/logs/{TOPIC}/0", topic_settings({}))
    batch = encode([Record(0, 1, None, b"from epoch 3")])
    log.append(batch, verified_headers(batch), epoch=Epoch(EPOCH), now=Timestamp(1))
    log.settle(log.segments)
    log.close()
    disk.close()
    return own_server.start()


def write(server: Server) -> None:
    producer = Producer(server.bootstrap)
    producer.produce(TOPIC, b"x", partition=0)
    assert producer.flush(WAIT_S) == 0


def test_clients_are_held_to_the_epoch_of_the_leader(led_before: Server):
    with raw_client(led_before.host_and_port) as client:
        assert codes(client, EPOCH) == [ErrorCode.none] * 3
        assert codes(client, -1) == [ErrorCode.none] * 3
        assert codes(client, EPOCH - 1) == [ErrorCode.fenced_leader_epoch] * 3
        assert codes(client, EPOCH + 1) == [ErrorCode.unknown_leader_epoch] * 3
        (topic,) = client.ask(ApiKey.METADATA, topics=[{"name": TOPIC}]).topics
        assert [each.leader_epoch for each in topic.partitions if each.partition_index == 0] == [3]
    write(led_before)


def codes(client: RawClient, epoch: int) -> list[ErrorCode]:
    """What Fetch, ListOffsets and OffsetForLeaderEpoch say to a client that takes it for that."""
    fetched = client.ask(
        ApiKey.FETCH,
        FETCH_BY_NAME,
        replica_id=-1,
        max_wait=duration(0),
        max_bytes=1 << 20,
        topics=[{"topic": TOPIC, "partitions": [fetched_partition(epoch)]}],
    )
    listed = client.ask(
        ApiKey.LIST_OFFSETS,
        replica_id=-1,
        topics=[
            {
                "name": TOPIC,
                "partitions": [
                    {"partition_index": 0, "timestamp": -1, "current_leader_epoch": epoch}
                ],
            }
        ],
    )
    ended = client.ask(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        topics=[
            {
                "topic": TOPIC,
                "partitions": [{"partition": 0, "current_leader_epoch": epoch, "leader_epoch": 0}],
            }
        ],
    )
    return [
        fetched.responses[0].partitions[0].error_code,
        listed.topics[0].partitions[0].error_code,
        ended.topics[0].partitions[0].error_code,
    ]


def fetched_partition(epoch: int) -> dict[str, Any]:
    return {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": 0,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
