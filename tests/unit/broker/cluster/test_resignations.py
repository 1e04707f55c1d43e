"""Leaders whose disk is not to be trusted, in the simulator."""

import contextlib

from goqueue.model.errors import GoQueueError
from tests.unit.broker.brokers import publish
from tests.unit.broker.cluster.test_failover import (
    create,
    leader,
    leads,
    state,
    three_nodes,
    values,
)


def test_a_leader_whose_disk_fails_resigns():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one"))
        nodes.world.disk("b").fail_sync("*/orders/*.log", times=None)
        with contextlib.suppress(GoQueueError):  # whoever waited hears that it is not known
            nodes.world.run(publish(nodes.brokers["b"], "orders", "unknown"))
        nodes.world.run_until(lambda: state(nodes).leader in (1, 3) and leads(nodes), limit_s=20)
        nodes.world.run(publish(leader(nodes), "orders", "two"))
        assert [each for each in values(nodes) if each != "unknown"] == ["one", "two"]
        assert 2 not in state(nodes).isr


def test_a_leader_whose_disk_is_full_gives_its_partitions_away_and_follows():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one"))
        nodes.brokers["b"].partitions.room._is_full = True
        nodes.world.run_until(lambda: state(nodes).leader in (1, 3) and leads(nodes), limit_s=5)
        nodes.world.run_for(5.0)
        assert set(state(nodes).isr) == {1, 3}, "it would keep others waiting"
        nodes.world.run(publish(leader(nodes), "orders", "two"))
        nodes.brokers["b"].partitions.room._is_full = False
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=30)
        assert values(nodes) == ["one", "two"]


def test_a_follower_whose_disk_is_full_keeps_nobody_waiting():
    with three_nodes() as nodes:
        create(nodes, first=3)
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3} and leads(nodes))
        nodes.world.run(publish(nodes.brokers["c"], "orders", "one"))
        nodes.world.disk("b").fill_up(0)
        began = nodes.world.loop.time()
        for value in ("two", "three", "four"):
            nodes.world.run(publish(nodes.brokers["c"], "orders", value))
            nodes.world.run_for(1.5)  # it tries again meanwhile
        assert nodes.world.loop.time() - began < 3 * 1.5 + 1.0
        assert set(state(nodes).isr) == {1, 3}
        nodes.world.disk("b").make_room()
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=30)
        assert values(nodes) == ["one", "two", "three", "four"]


def test_a_leader_that_cannot_open_its_log_resigns():
    """Nobody has missed it, since it is the controller; and the file that says whose its data is,
    is cut."""
    with three_nodes() as nodes:
        create(nodes, first=1)
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3} and leads(nodes))
        nodes.world.run(publish(nodes.brokers["a"], "orders", "one"))
        nodes.stop("a")
        file = nodes.world.disk("a").open("/data/logs/orders/topic")
        file.truncate(14)
        file.close()
        nodes.start("a")
        nodes.world.run_until(
            lambda: len(nodes.brokers) == 3 and state(nodes).leader in (2, 3) and leads(nodes),
            limit_s=20,
        )
        nodes.world.run(publish(leader(nodes), "orders", "two"))
        assert values(nodes) == ["one", "two"]
        assert 1 not in state(nodes).isr


def test_a_replica_that_lost_records_does_not_lead_and_gets_them_back():
    with three_nodes() as nodes:
        create(nodes)
        nodes.world.run_until(lambda: leads(nodes))
        nodes.world.run(publish(nodes.brokers["b"], "orders", "one"))
        nodes.world.run(publish(nodes.brokers["b"], "orders", "two"))
        for host in "abc":
            nodes.stop(host)
        disk, directory = nodes.world.disk("b"), "/data/logs/orders/0"
        (name,) = [each for each in disk.list_directory(directory) if each.endswith(".log")]
        disk.flip_bit(f"{directory}/{name}", disk.size(f"{directory}/{name}") - 1)
        nodes.start("a", "b", "c")
        nodes.world.run_until(
            lambda: len(nodes.brokers) == 3 and state(nodes).leader in (1, 3) and leads(nodes),
            limit_s=60,
        )
        bundle = nodes.brokers["b"].partitions.used_bundle("orders", 0)
        assert bundle is not None
        assert bundle.lost_below == {"": 2}
        assert values(nodes) == ["one", "two"]
        nodes.world.run_until(lambda: set(state(nodes).isr) == {1, 2, 3}, limit_s=60)
        bundle.check_whole()
