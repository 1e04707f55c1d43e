"""Nodes that follow a coordinator's shard keep its state, and take over without reading the log."""

from collections.abc import Iterable
from typing import Any

import pytest

from goqueue.broker import Broker, machine_host, standby
from goqueue.broker.cluster.coordinator_topics import GROUPS_TOPIC, TRANSACTIONS_TOPIC, shard_of
from goqueue.broker.machine_host import MachineHost
from goqueue.broker.standby import LOOK_SECONDS, Standby
from goqueue.model.errors import CorruptData
from goqueue.model.ids import GroupId
from goqueue.model.machine import Machine
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.shards import (
    NAMES,
    SHARDS,
    begin,
    commit,
    committed,
    found,
    group_node,
    three_nodes,
    transaction_node,
)

COMMITS = 40
NAME = NAMES[0]
SHARD = shard_of(NAME, SHARDS)


def commit_often(nodes: ClusterWorld, group: str = NAME) -> Broker:
    broker = found(group_node, nodes, group)
    for number in range(COMMITS):
        nodes.world.run(commit(broker, group, number))
    return broker


def standbys(nodes: ClusterWorld, topic: str, shard: int) -> list[Standby]:
    """Of the nodes that do not coordinate it."""
    return [
        each
        for broker in nodes.brokers.values()
        if (each := broker._coordinators._standbys._standbys.get((topic, shard))) is not None
    ]


def wait_current(nodes: ClusterWorld, topic: str = GROUPS_TOPIC, shard: int = SHARD) -> None:
    def is_current() -> bool:
        every = standbys(nodes, topic, shard)
        return len(every) == 2 and all(
            each._position == each.partition.log.end_offset for each in every
        )

    nodes.world.run_until(is_current, limit_s=30)


def state(machine: Machine[Any] | None) -> list[bytes]:
    assert machine is not None
    return sorted(machine.encode(each) for each in machine.snapshot())


def host_of(broker: Broker) -> MachineHost[Any]:
    return broker.groups.host_of(GroupId(NAME))


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each host applied when it was opened."""
    counts: list[int] = []
    replay = machine_host.replay

    async def count(machine: Machine[Any], values: Iterable[bytes]) -> None:
        values = list(values)
        counts.append(len(values))
        await replay(machine, values)

    monkeypatch.setattr(machine_host, "replay", count)
    return counts


def test_a_standby_is_as_the_coordinator_is(applied: list[int]):
    with three_nodes() as nodes:
        broker = commit_often(nodes)
        wait_current(nodes)
        for each in standbys(nodes, GROUPS_TOPIC, SHARD):
            assert state(each._machine) == state(host_of(broker).ahead)


def test_whoever_takes_over_applies_only_what_the_standby_lacks(applied: list[int]):
    with three_nodes() as nodes:
        broker = commit_often(nodes)
        wait_current(nodes)
        applied.clear()
        nodes.stop(next(host for host, each in nodes.brokers.items() if each is broker))
        heir = found(group_node, nodes, NAME)
        assert sum(applied) < COMMITS / 2, "what was decided since, in all shards"
        assert nodes.world.run(committed(heir, NAME)) == COMMITS - 1
        nodes.world.run(commit(heir, NAME, COMMITS))
        assert nodes.world.run(committed(heir, NAME)) == COMMITS


def test_what_the_standby_lacks_is_applied(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(standby, "LOOK_SECONDS", 10.0)
    with three_nodes() as nodes:
        broker = commit_often(nodes)
        nodes.world.run_for(15.0)
        nodes.world.run(commit(broker, NAME, 1234))
        nodes.stop(next(host for host, each in nodes.brokers.items() if each is broker))
        assert nodes.world.run(committed(found(group_node, nodes, NAME), NAME)) == 1234


def test_a_snapshot_of_the_coordinator_leaves_the_standby_as_it_is(applied: list[int]):
    with three_nodes() as nodes:
        broker = commit_often(nodes)
        wait_current(nodes)
        before = [each._machine for each in standbys(nodes, GROUPS_TOPIC, SHARD)]
        nodes.world.run(host_of(broker).take_snapshot())
        wait_current(nodes)
        nodes.world.run(commit(broker, NAME, 77))
        wait_current(nodes)
        nodes.world.run_until(
            lambda: all(each._start > 0 for each in standbys(nodes, GROUPS_TOPIC, SHARD)),
            limit_s=30,
        )
        for machine, each in zip(before, standbys(nodes, GROUPS_TOPIC, SHARD), strict=True):
            assert each._machine is machine
            assert state(each._machine) == state(host_of(broker).ahead)
            assert 0 < each._snapshot_bytes < 10_000


def test_a_standby_begins_with_the_newest_snapshot(applied: list[int]):
    with three_nodes() as nodes:
        broker = commit_often(nodes)
        nodes.world.run(host_of(broker).take_snapshot())
        nodes.world.run(commit(broker, NAME, 77))
        wait_current(nodes)
        (one, _) = standbys(nodes, GROUPS_TOPIC, SHARD)
        one._forget()
        wait_current(nodes)
        assert one._records < COMMITS / 2
        assert state(one._machine) == state(host_of(broker).ahead)


def test_a_standby_whose_log_was_exchanged_begins_anew():
    with three_nodes() as nodes:
        broker = commit_often(nodes)
        wait_current(nodes)
        (one, other) = standbys(nodes, GROUPS_TOPIC, SHARD)
        machine = one._machine
        one.partition.unclean_cuts += 1  # as if a leader that lacked records had been elected
        assert one.is_behind
        assert nodes.world.run(one.take()) == (None, None)
        nodes.world.run_for(2 * LOOK_SECONDS)
        wait_current(nodes)
        assert one._machine is not machine
        assert state(one._machine) == state(host_of(broker).ahead)
        assert state(other._machine) == state(host_of(broker).ahead)


def test_a_log_that_cannot_be_read_is_tried_again_later(monkeypatch: pytest.MonkeyPatch):
    tries: list[float] = []

    async def fail(self: Standby) -> None:
        tries.append(1)
        raise CorruptData("damaged")

    with three_nodes() as nodes:
        monkeypatch.setattr(Standby, "_apply_committed", fail)
        broker = commit_often(nodes)
        nodes.world.run_for(5.0)
        assert 0 < len(tries) < 20, "not at every look"
        nodes.stop(next(host for host, each in nodes.brokers.items() if each is broker))
        assert nodes.world.run(committed(found(group_node, nodes, NAME), NAME)) == COMMITS - 1


def test_transactions_have_standbys_too(applied: list[int]):
    with three_nodes() as nodes:
        broker = found(transaction_node, nodes, NAME)
        who = nodes.world.run(begin(broker, NAME))
        for _ in range(COMMITS):
            who = nodes.world.run(begin(broker, NAME))
        wait_current(nodes, TRANSACTIONS_TOPIC)
        applied.clear()
        nodes.stop(next(host for host, each in nodes.brokers.items() if each is broker))
        heir = found(transaction_node, nodes, NAME)
        assert sum(applied) < COMMITS / 2
        assert nodes.world.run(begin(heir, NAME)).epoch > who.epoch
