"""How far nodes have followed the metadata: any node asks the controller."""

from tests.unit.broker.cluster.test_failover import three_nodes


def test_any_node_tells_what_the_controller_hears():
    with three_nodes() as nodes:
        nodes.world.run(nodes.controller.create_topic("t"))
        nodes.world.run_for(3.0)
        for host in "abc":
            found = nodes.world.run(nodes.brokers[host].quorum_positions.find())
            assert found.controller == 1
            assert found.end == found.committed_end > 0
            assert [each.node_id for each in found.nodes] == [2, 3]
            assert [each.applied for each in found.nodes] == [found.end] * 2
            assert all(each.heard_ms_ago < 1000 for each in found.nodes)
