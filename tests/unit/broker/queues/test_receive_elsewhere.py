"""Receiving from partitions of several leaders."""

import asyncio
import contextlib

import msgspec
import pytest

from goqueue.broker.messages.outgoing import OutgoingMessage
from goqueue.broker.queues.receive_request import ReceiveRequest
from goqueue.model.ids import GroupId
from goqueue.queue import QueueSettings, TooManyInFlight
from tests import queue_verbs
from tests.unit.broker.cluster.apart import HOSTS, Apart, led_apart

GROUP = GroupId("g")
REQUEST = ReceiveRequest(["orders"], GROUP, "c")


def drain(apart: Apart, *hosts: str) -> list[str]:
    found: list[str] = []
    for host in hosts:
        found += [value for value, _ in apart.receive(host, max_messages=1)]
    return found


def test_messages_of_all_leaders_are_received_at_any_node_once():
    with led_apart() as apart:
        for index in range(3):
            apart.publish("a", f"{index}", f"{index}+", partition=index)
        found = drain(apart, "b", "b", "b", "a", "c", "c")
        assert sorted(found) == ["0", "0+", "1", "1+", "2", "2+"]
        assert drain(apart, "a", "b", "c") == []


def test_a_group_begins_at_all_leaders_at_once():
    with led_apart() as apart:
        apart.publish("a", "before", partition=2)
        settings = apart["a"].queues.settings("late")
        latest = msgspec.structs.replace(settings, start="latest")
        apart.world.run(apart["a"].queues.configure("late", latest))
        apart.world.run_for(1.0)
        assert apart.receive("b", "late") == []
        apart.publish("a", "after", partition=2)
        assert [value for value, _ in apart.receive("a", "late")] == ["after"]


def test_a_wait_ends_with_a_message_of_any_leader():
    async def story(apart: Apart, host: str, index: int) -> list[str]:
        queues = apart[host].queues
        waiting = asyncio.create_task(
            queue_verbs.receive(queues, ["orders"], "g", "c", wait_ms=60_000)
        )
        await apart[host].environment.clock.sleep(0.5)
        message = OutgoingMessage(b"news", partition=index)
        await apart.messages[host].publish("orders", [message])
        return [(each.record.value or b"").decode() for each in await waiting]

    with led_apart() as apart:
        for host in ("a", "b", "c"):
            for index in range(3):
                assert apart.world.run(story(apart, host, index)) == ["news"]


def test_whoever_gives_up_keeps_nothing():
    async def give_up(apart: Apart) -> None:
        queues = apart["b"].queues
        waiting = asyncio.create_task(
            queue_verbs.receive(queues, ["orders"], "g", "gone", wait_ms=60_000)
        )
        await apart["b"].environment.clock.sleep(0.5)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    with led_apart() as apart:
        apart.world.run(give_up(apart))
        for index in range(3):
            apart.publish("c", f"{index}", partition=index)
        assert sorted(drain(apart, "a", "b", "c")) == ["0", "1", "2"]


def test_what_arrives_too_late_is_given_back():
    with led_apart() as apart:
        for index in range(3):
            apart.publish("a", f"{index}", partition=index)
        found = apart.world.run(apart["a"].queues.receiver.receive(REQUEST, 0))
        apart.world.run(apart["b"].queues.receiver.give_back(found))
        assert sorted(drain(apart, "a", "b", "c")) == ["0", "1", "2"]


def test_a_peek_sees_what_all_leaders_have():
    with led_apart() as apart:
        for index in range(3):
            apart.publish("a", f"{index}", partition=index)
        for host in ("a", "b", "c"):
            found = apart.world.run(apart[host].queues.receiver.peek(GROUP, "orders", 10))
            assert sorted(each.record.value or b"" for each in found) == [b"0", b"1", b"2"]
        assert len(apart.receive("a", max_messages=10)) == 1, "nothing was delivered by that"


def test_a_leader_that_is_gone_is_left_out():
    with led_apart() as apart:
        apart.publish("a", "here", partition=1)
        assert len(apart.receive("a")) == 1
        apart.nodes.stop("c")
        apart.publish("b", "still", partition=1)
        assert [value for value, _ in apart.receive("b", wait_ms=5_000)] == ["still"]


@pytest.mark.parametrize("limit", ["max_in_flight_group", "max_in_flight_consumer"])
def test_limits_in_flight_are_divided_over_the_leaders(limit: str):
    """Six for all of them, also when one has far more messages than the others."""
    with led_apart() as apart:
        settings = msgspec.convert({limit: 6}, QueueSettings)
        apart.world.run(apart["b"].queues.configure("g", settings))
        for index, count in enumerate((12, 3, 3)):
            apart.publish("a", *(f"{index}-{n}" for n in range(count)), partition=index)
        found: list[tuple[str, str]] = []
        for host in (*HOSTS, *HOSTS):
            with contextlib.suppress(TooManyInFlight):
                found += apart.receive(host, max_messages=20)
        assert sorted(value[0] for value, _ in found) == ["0", "0", "1", "1", "2", "2"]
        with pytest.raises(TooManyInFlight, match="here, 2 of 6 allowed"):
            apart.receive("b")
        receipts = [receipt for _, receipt in found]
        apart.world.run(queue_verbs.ack(apart["c"].queues, receipts))
        assert len(apart.receive("a", max_messages=20)) == 2
