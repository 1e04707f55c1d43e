"""What is a queue group's and has to be done at all leaders."""

import pytest

from goqueue.model.ids import GroupId
from goqueue.queue import QueueGroupNotFound
from tests.unit.broker.cluster.apart import Apart, led_apart


def hold_all(apart: Apart) -> None:
    for index in range(3):
        apart.publish("a", str(index), partition=index)
    assert sum(len(apart.receive(host)) for host in ("a", "b", "c")) == 3
    assert not any(apart.receive(host) for host in ("a", "b", "c"))


def test_what_a_consumer_held_anywhere_is_free_when_it_has_left():
    with led_apart() as apart:
        hold_all(apart)
        queues = apart["a"].queues
        assert apart.world.run(queues.remove_consumer("g", "c", failed=False)) == 3
        assert sum(len(apart.receive(host)) for host in ("a", "b", "c")) == 3


def test_what_a_lost_consumer_held_anywhere_is_free_soon():
    with led_apart() as apart:
        hold_all(apart)

        async def lose() -> None:
            apart["a"].queues.release_consumer(GroupId("g"), "c", failed=True)

        apart.world.run(lose())
        apart.world.run_for(1.0)
        assert sum(len(apart.receive(host)) for host in ("a", "b", "c")) == 3


def test_a_deleted_group_starts_over_at_all_leaders():
    with led_apart() as apart:
        hold_all(apart)
        apart.world.run(apart["a"].queues.forget("g"))
        for host in ("a", "b", "c"):
            with pytest.raises(QueueGroupNotFound):
                apart[host].queues.in_flight("g")
