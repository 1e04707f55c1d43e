"""Groups and transactions are divided over coordinators on several nodes."""

import pytest
from structlog.testing import capture_logs

from goqueue.broker.cluster.coordinator_topics import (
    COORDINATED,
    GROUPS_TOPIC,
    shard_of,
    transaction_key,
)
from goqueue.broker.transactions.application_transactions import attempt_name
from goqueue.model.errors import NotCoordinator
from goqueue.model.ids import GroupId
from goqueue.model.murmur import murmur2
from goqueue.testing.sim import World
from goqueue.txn import Attempt
from tests.unit.broker.cluster.cluster_world import ClusterWorld
from tests.unit.broker.cluster.shards import (
    NAMES,
    SHARDS,
    commit,
    committed,
    found,
    group_node,
    move,
    three_nodes,
)

# --- which shard ----------------------------------------------------------------------------------


def test_a_shard_is_chosen_as_kafka_chooses_the_partition_of_a_key():
    assert [shard_of(each, 16) for each in ("workers", "readers", "")] == [
        (murmur2(each.encode()) & 0x7FFF_FFFF) % 16 for each in ("workers", "readers", "")
    ]
    assert shard_of("anything", 1) == 0
    assert len({shard_of(f"group-{number}", 16) for number in range(200)}) == 16


@pytest.mark.parametrize("application", ["sink", "a:b", "sink:1:2:3:4", "7:7:7"])
def test_attempts_are_where_their_application_is(application: str):
    name = attempt_name(Attempt(application, 1, 22), task=3, number=0)
    assert transaction_key(name) == transaction_key(application)
    assert transaction_key("tx-1") == "tx-1"
    assert transaction_key("") == ""


# --- groups ---------------------------------------------------------------------------------------


def test_groups_are_coordinated_by_all_nodes_and_outlive_one_of_them():
    with three_nodes() as nodes:
        run = nodes.world.run
        for number, group in enumerate(NAMES):
            broker = found(group_node, nodes, group)
            run(commit(broker, group, number))
            assert {each.group_coordinator(group) for each in nodes.brokers.values()} == {
                broker.node_id
            }
            for other in nodes.brokers.values():
                if other is not broker:
                    with pytest.raises(NotCoordinator):
                        run(commit(other, group, 99))
        nodes.stop("b", power=True)
        for number, group in enumerate(NAMES):
            assert run(committed(found(group_node, nodes, group), group)) == number


def test_a_node_lists_the_groups_that_it_coordinates():
    with three_nodes() as nodes:
        run = nodes.world.run
        for group in NAMES:
            run(commit(found(group_node, nodes, group), group, 1))
        listed = [
            str(each.group_id)
            for broker in nodes.brokers.values()
            for each in run(broker.queue_groups.list_groups())
        ]
        assert sorted(listed) == sorted(NAMES)
        run(found(group_node, nodes, NAMES[0]).queue_groups.delete(GroupId(NAMES[0])))
        assert run(committed(found(group_node, nodes, NAMES[0]), NAMES[0])) is None


def test_a_shard_that_moves_leaves_the_others_alone():
    with three_nodes() as nodes:
        run = nodes.world.run
        group = NAMES[0]
        here = found(group_node, nodes, group)
        others = [each for each in NAMES if group_node(nodes, each) not in (here, None)]
        hosts = {
            each: found(group_node, nodes, each).groups.host_of(GroupId(each)) for each in others
        }
        move(nodes, GROUPS_TOPIC, shard_of(group, SHARDS), here)
        nodes.world.run_until(lambda: not here.groups.coordinates(GroupId(group)), limit_s=30)
        assert found(group_node, nodes, group) is not here
        for each, host in hosts.items():
            assert found(group_node, nodes, each).groups.host_of(GroupId(each)) is host
        run(commit(found(group_node, nodes, group), group, 5))


# --- how many -------------------------------------------------------------------------------------


def test_a_cluster_that_has_one_shard_keeps_one():
    with capture_logs(), World(0) as world:
        nodes = ClusterWorld(world)
        nodes.start("a")
        world.run_until(lambda: "a" in nodes.brokers, limit_s=30)
        world.run(nodes.controller.create_topic("orders", partitions=1))
        world.run(commit(nodes.controller, "g", 3))
        nodes.stop("a")
        nodes.coordinators = 5
        nodes.start("a")
        world.run_until(lambda: "a" in nodes.brokers, limit_s=30)
        assert {nodes.controller.topic(name).partitions for name in COORDINATED} == {1}
        assert world.run(committed(nodes.controller, "g")) == 3
