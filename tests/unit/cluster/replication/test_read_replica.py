"""Which follower a consumer is sent to."""

from goqueue.cluster.replication import choose_read_replica
from goqueue.model.ids import NodeId, Offset
from tests.unit.cluster.replication.test_leader import ALL, ME, A, B, World, leader


def chosen(world: World, *in_rack: NodeId, offset: int = 5) -> NodeId | None:
    return choose_read_replica(world.replicas, offset=Offset(offset), in_rack=frozenset(in_rack))


def world_with(*isr: NodeId, a: int, b: int) -> World:
    world = World(leader(*isr))
    world.end = 10
    world.ack(A, a)
    world.ack(B, b)
    return world


def test_a_follower_in_the_consumers_rack_is_chosen():
    world = world_with(*ALL, a=10, b=10)
    assert chosen(world, B) == B
    assert chosen(world) is None


def test_the_leader_serves_consumers_of_its_own_rack():
    assert chosen(world_with(*ALL, a=10, b=10), ME, B) is None


def test_a_follower_that_lacks_the_offset_is_not_chosen():
    world = world_with(*ALL, a=10, b=4)
    assert chosen(world, B) is None
    assert chosen(world, B, offset=4) == B


def test_a_follower_out_of_sync_is_not_chosen():
    assert chosen(world_with(ME, A, a=10, b=10), B) is None


def test_of_several_the_one_with_most_of_the_log_is_chosen_then_the_lowest_number():
    assert chosen(world_with(*ALL, a=6, b=10), A, B) == B
    assert chosen(world_with(*ALL, a=10, b=10), A, B) == A
