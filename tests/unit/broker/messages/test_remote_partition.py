"""Partitions that other nodes lead, for those who read."""

import pytest

from goqueue.broker.messages.read import read_page
from goqueue.broker.messages.remote_partition import (
    RemotePartition,
    is_remote,
    offset_for_time,
    readable,
    visible_end,
)
from goqueue.broker.storage.partition import Partition
from goqueue.model.errors import OffsetOutOfRange, PartitionNotFound
from goqueue.model.ids import Offset, Timestamp
from tests.unit.broker.cluster.apart import Apart, led_apart


def remote(apart: Apart) -> RemotePartition:
    """The third partition, seen from host b."""
    broker = apart["b"]
    found = apart.world.run(readable(broker, broker.topic("orders"), 2))
    assert isinstance(found, RemotePartition)
    return found


def test_offsets_and_messages_of_another_leader_are_read():
    with led_apart() as apart:
        apart.publish("a", *"abc", partition=2)
        there = remote(apart)
        assert (there.log.start_offset, there.log.end_offset, str(there)) == (0, 3, "orders-2")
        page = apart.world.run(read_page(there, Offset(1), limit=10, bytes_max=1000))
        assert [record.value for record in page.records] == [b"b", b"c"]
        assert (page.next_offset, page.at_end) == (3, True)
        apart.publish("a", "d", partition=2)
        assert apart.world.run(visible_end(apart["b"], there)) == 4
        with pytest.raises(OffsetOutOfRange):
            apart.world.run(read_page(there, Offset(9), limit=10, bytes_max=1000))


def test_a_time_is_found_by_the_leader():
    with led_apart() as apart:
        (first,) = apart.publish("a", "a", partition=2)
        there, broker = remote(apart), apart["b"]
        at = Timestamp(first.timestamp)
        assert apart.world.run(offset_for_time(broker, there, at)) == 0
        later = Timestamp(at + 3_600_000)
        assert apart.world.run(offset_for_time(broker, there, later)) is None
        assert apart.world.run(apart.messages["b"].offset_for_time(there, later)) == 1


def test_what_this_node_leads_is_read_here():
    with led_apart() as apart:
        topic = apart["c"].topic("orders")
        here = apart.world.run(readable(apart["c"], topic, 2))
        assert isinstance(here, Partition)
        assert not is_remote([here])
        with pytest.raises(PartitionNotFound):
            apart.world.run(readable(apart["c"], topic, 3))
