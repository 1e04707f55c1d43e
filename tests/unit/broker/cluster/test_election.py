"""Nodes on a quorum elect their controller: what happens when one thing goes wrong."""

import pytest

from goqueue.model.errors import DuplicateNodeId, GoQueueError
from goqueue.model.ids import NodeId
from tests.unit.broker.cluster.election_world import electing


@pytest.mark.parametrize("run", range(2))
def test_nodes_form_one_cluster(run: int):
    with electing(run) as nodes:
        assert len({node.metadata.cluster_id for node in nodes.nodes.values()}) == 1
        before = nodes.quorum.term, nodes.quorum.end
        nodes.world.run_for(30.0)
        assert (nodes.quorum.term, nodes.quorum.end) == before, "nothing happens when nothing does"
        for host, node in nodes.nodes.items():
            nodes.world.run(node.create_topic(f"by-{host}"))
            assert f"by-{host}" in node.metadata.topics


@pytest.mark.parametrize("run", range(2))
def test_another_node_is_the_controller_soon_after_a_kill(run: int):
    with electing(run) as nodes:
        leader = nodes.leaders[0]
        number = nodes.numbers[leader]
        nodes.kill(leader)
        killed_at = nodes.world.loop.time()
        nodes.world.run_until(lambda: bool(nodes.leaders), limit_s=10)
        assert nodes.world.loop.time() - killed_at < 1.0
        new = nodes.leaders[0]
        nodes.world.run_until(lambda: nodes.states(new)[number] == "fenced", limit_s=10)
        assert nodes.world.loop.time() - killed_at < 2.0
        nodes.start(leader)
        assert nodes.settle() == new, "who comes back takes nothing"


@pytest.mark.parametrize("trouble", ["power", "pause", "isolate", "quorum"])
@pytest.mark.parametrize("run", range(2))
def test_a_silent_controller_is_replaced_and_comes_back_as_a_follower(run: int, trouble: str):
    with electing(run) as nodes:
        world, leader = nodes.world, nodes.leaders[0]
        began = world.loop.time()
        match trouble:
            case "power":
                nodes.kill(leader, power=True)
            case "pause":
                world.pause(leader)
            case "isolate":
                world.fabric.isolate(leader)
            case _:
                nodes.quorum.cut(leader)
        others = [host for host in nodes.hosts if host != leader]
        world.run_until(
            lambda: any(nodes.nodes[host].controller.is_leading for host in others), limit_s=20
        )
        assert world.loop.time() - began < (8.0 if trouble == "quorum" else 2.0)
        world.run_for(3.0)
        if trouble == "pause":
            world.resume(leader)
        world.fabric.heal()
        nodes.quorum.heal()
        nodes.start()
        assert nodes.settle() != leader


@pytest.mark.parametrize("run", range(2))
def test_a_controller_that_hangs_is_fenced_soon_after_it_was_replaced(run: int):
    """A majority has not heard it for a session: it does not get another one."""
    with electing(run) as nodes:
        world, hanging = nodes.world, nodes.leaders[0]
        world.pause(hanging)
        others = [host for host in nodes.hosts if host != hanging]
        world.run_until(
            lambda: any(nodes.nodes[each].controller.is_leading for each in others), limit_s=10
        )
        elected_at = world.loop.time()
        number = nodes.numbers[hanging]
        world.run_until(
            lambda: all(nodes.states(each)[number] == "fenced" for each in others), limit_s=10
        )
        assert world.loop.time() - elected_at < 0.6
        world.resume(hanging)
        assert nodes.settle() != hanging


@pytest.mark.parametrize("run", range(2))
def test_a_verb_asked_before_an_election_is_carried_out_soon_after_it(run: int):
    with electing(run) as nodes:
        world, leader = nodes.world, nodes.leaders[0]
        nodes.kill(leader)
        world.run_for(0.02)  # until its connections are known to be gone
        assert not nodes.leaders
        asked = [
            world.loop.create_task(node.create_topic(f"by-{host}-{number}"))
            for host, node in nodes.nodes.items()
            for number in range(4)
        ]
        world.run_until(lambda: bool(nodes.leaders), limit_s=10)
        world.run_until(lambda: all(each.done() for each in asked), limit_s=3)
        assert {each.result().name for each in asked} == set(
            nodes.nodes[nodes.leaders[0]].metadata.topics
        )
        nodes.start(leader)
        nodes.settle()


@pytest.mark.parametrize("run", range(2))
def test_a_controller_that_resigns_hands_over_at_once(run: int):
    with electing(run) as nodes:
        leader = nodes.leaders[0]
        nodes.terminate(leader)
        nodes.world.run_until(lambda: leader not in nodes.leaders)
        resigned_at = nodes.world.loop.time()
        nodes.world.run_until(lambda: bool(nodes.leaders), limit_s=10)
        assert nodes.world.loop.time() - resigned_at < 0.5
        nodes.world.run_until(lambda: not nodes.world.alive(leader))
        nodes.start(leader)
        nodes.settle()


@pytest.mark.parametrize("run", range(2))
def test_a_node_that_reaches_the_quorum_and_no_other_node_takes_nothing(run: int):
    with electing(run) as nodes:
        leader = nodes.leaders[0]
        lone = next(host for host in nodes.hosts if host != leader)
        term = nodes.quorum.term
        nodes.world.fabric.isolate(lone)
        nodes.world.run_for(20.0)
        assert nodes.quorum.term == term
        assert nodes.leaders == [leader]
        nodes.world.fabric.heal()
        assert nodes.settle() == leader


@pytest.mark.parametrize("run", range(2))
def test_two_nodes_that_do_not_reach_each_other_take_the_term_once(run: int):
    with electing(run, "ab") as nodes:
        term = nodes.quorum.term
        nodes.world.fabric.cut("a", "b")
        nodes.world.run_for(30.0)
        assert nodes.quorum.term <= term + 1
        nodes.world.fabric.heal()
        nodes.settle()


def test_the_last_of_two_nodes_goes_on_alone():
    with electing(0, "ab") as nodes:
        leader = nodes.leaders[0]
        other = "a" if leader == "b" else "b"
        nodes.kill(leader)
        nodes.world.run_until(lambda: nodes.leaders == [other], limit_s=10)
        nodes.world.run(nodes.nodes[other].create_topic("alone"))


@pytest.mark.parametrize("run", range(2))
def test_all_nodes_start_again_after_a_power_cut(run: int):
    with electing(run) as nodes:
        nodes.world.run(nodes.nodes["b"].create_topic("kept"))
        for host in nodes.hosts:
            nodes.kill(host, power=True)
        nodes.start()
        nodes.settle()
        assert list(nodes.nodes["c"].metadata.topics) == ["kept"]


@pytest.mark.parametrize("run", range(2))
def test_nobody_decides_while_the_quorum_is_away_and_nobody_is_fenced(run: int):
    with electing(run) as nodes:
        for host in nodes.hosts:
            nodes.quorum.cut(host)
        nodes.world.run_for(20.0)
        assert nodes.leaders == []
        with pytest.raises(GoQueueError):
            nodes.world.run(nodes.nodes["a"].create_topic("refused"))
        assert set(nodes.states("a").values()) == {"active"}
        nodes.quorum.heal()
        healed_at = nodes.world.loop.time()
        nodes.settle()
        assert nodes.world.loop.time() - healed_at < 12.0


def test_a_second_process_with_the_number_of_a_running_node_does_not_start():
    with electing(0) as nodes:
        leader = nodes.leaders[0]
        twin = next(host for host in nodes.hosts if host != leader)
        nodes.numbers["d"] = nodes.numbers[twin]
        nodes.start("d")
        nodes.world.run_until(lambda: "d" in nodes.problems, limit_s=30)
        assert isinstance(nodes.problems["d"], DuplicateNodeId)
        assert twin not in nodes.problems
        assert nodes.leaders == [leader]


def test_a_second_process_with_the_number_of_the_controller_does_not_start():
    with electing(0) as nodes:
        leader, term = nodes.leaders[0], nodes.quorum.term
        nodes.numbers["d"] = nodes.numbers[leader]
        nodes.start("d")
        nodes.world.run_until(lambda: "d" in nodes.problems, limit_s=30)
        assert isinstance(nodes.problems["d"], DuplicateNodeId)
        assert (nodes.leaders, nodes.quorum.term) == ([leader], term)


def test_a_new_node_takes_no_term_from_nodes_that_are_away():
    with electing(0) as nodes:
        for host in nodes.hosts:
            nodes.kill(host)
        term = nodes.quorum.term
        nodes.start("d")
        nodes.world.run_for(10.0)
        assert nodes.quorum.term == term
        nodes.hosts = "abcd"
        nodes.start()
        nodes.settle()
        assert sorted(nodes.states("a")) == [NodeId(1), NodeId(2), NodeId(3), NodeId(4)]
