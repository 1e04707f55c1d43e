"""A dispatcher for each group: when it is made, and who hears of news."""

import pytest

from goqueue.model.ids import GroupId
from goqueue.queue import QueueGroupNotFound, QueueSettings
from tests.unit.broker.queue_world import Bench, play, values

GROUP = GroupId("workers")


def test_a_group_keeps_its_dispatcher_until_it_is_deleted():
    async def scenario(bench: Bench) -> None:
        dispatchers = bench.queues.dispatchers
        await bench.receive()
        first = dispatchers.get(GROUP)
        assert dispatchers.get(GROUP) is first
        await bench.queues.forget(GROUP)
        with pytest.raises(QueueGroupNotFound):
            dispatchers.get(GROUP)
        await bench.receive()
        assert dispatchers.get(GROUP) is not first

    play(scenario)


def test_a_group_that_only_has_settings_has_one_too():
    async def scenario(bench: Bench) -> None:
        assert bench.queues.dispatchers.get(GROUP).group.group_id == GROUP
        assert GROUP not in bench.queues.groups, "it has not begun"

    play(scenario, settings=QueueSettings(max_failures=1))


def test_news_of_one_group_do_not_wake_another():
    async def scenario(bench: Bench) -> None:
        dispatchers, other = bench.queues.dispatchers, GroupId("others")
        await bench.receive()
        await bench.receive(group="others")
        before = dispatchers.get(GROUP).news, dispatchers.get(other).news
        dispatchers.notify_one(GROUP)
        dispatchers.notify_room(GROUP)
        dispatchers.notify_one(GroupId("strangers"))  # which nobody waits in
        after = dispatchers.get(GROUP).news, dispatchers.get(other).news
        assert (after[0] > before[0], after[1]) == (True, before[1])

    play(scenario)


def test_a_consumer_that_left_is_not_at_work():
    async def scenario(bench: Bench) -> None:
        await bench.receive()
        assert bench.queues.consumers(GROUP) == {"ann": ("jobs",)}
        bench.queues.dispatchers.forget_consumer(GROUP, "ann")
        bench.queues.dispatchers.forget_consumer(GroupId("strangers"), "ann")
        assert bench.queues.consumers(GROUP) == {}

    play(scenario)


def test_what_an_idle_group_has_loaded_is_let_go_and_read_again():
    async def scenario(bench: Bench) -> None:
        await bench.publish("jobs", b"0", b"1")
        await bench.receive(max_messages=1)
        dispatcher = bench.queues.dispatchers.get(GROUP)
        loaded = len(dispatcher._buffers)
        await bench.sleep(5)
        assert loaded == len(dispatcher._buffers) == 1
        assert values(await bench.receive(max_messages=1)) == [b"1"]
        await bench.sleep(15)
        assert not dispatcher._buffers

    play(scenario)
