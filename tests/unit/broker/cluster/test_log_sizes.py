"""Bytes of partitions, asked of all nodes, and plans that go by them."""

from goqueue.cluster.balance import plan_replacement
from goqueue.model.ids import NodeId, TopicIdPartition
from tests.unit.broker.cluster.test_failover import three_nodes
from tests.unit.broker.cluster.test_reassignments import SIZE, fill


def test_each_node_tells_what_it_has_and_a_dead_one_is_left_out():
    with three_nodes() as nodes:
        fill(nodes)
        sizes = nodes.world.run(nodes.brokers["c"].log_sizes.by_node())
        assert sizes[NodeId(2)]["orders"][0] >= SIZE * 1000
        assert "orders" not in sizes[NodeId(3)]
        nodes.stop("b")
        nodes.world.run_until(lambda: nodes.state_of(2) == "fenced", limit_s=20)
        left = nodes.world.run(nodes.controller.log_sizes.by_node())
        assert sorted(left) == [1, 3]
        topic_id = nodes.controller.topic("orders").topic_id
        by_partition = nodes.world.run(nodes.controller.log_sizes.by_partition())
        assert by_partition[TopicIdPartition(topic_id, 0)] >= SIZE * 1000
        metadata = nodes.controller.metadata
        found = plan_replacement(metadata, by_partition, NodeId(2), NodeId(3))
        assert [each.after for each in found.moves if each.topic_id == topic_id] == [(3, 1)]
