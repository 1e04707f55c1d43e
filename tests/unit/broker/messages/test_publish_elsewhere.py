"""Publishing to partitions of several leaders."""

import msgspec

from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.model.errors import NodeUnreachable, NotLeader, Uncertain
from tests.unit.broker.cluster.apart import led_apart


def test_messages_go_to_their_leaders_and_are_answered_in_order():
    with led_apart() as apart:
        messages = [OutgoingMessage(str(i).encode(), partition=i % 3) for i in range(6)]
        for host in ("a", "b", "c"):
            found = apart.world.run(apart.messages[host].publish("orders", messages))
            partitions = [each.partition for each in found if isinstance(each, Published)]
            assert partitions == [0, 1, 2, 0, 1, 2]
        for index, host in enumerate(("a", "b", "c")):
            partition = apart.world.run(apart[host].partition("orders", index))
            assert partition.log.end_offset == 6


def test_a_repeat_under_its_key_finds_the_first_one_whichever_node_it_asks():
    with led_apart() as apart:
        messages = [OutgoingMessage(str(i).encode(), key=str(i).encode()) for i in range(9)]
        first, *others = (
            apart.world.run(apart.messages[host].publish("orders", messages, idempotency_key="k"))
            for host in ("a", "b", "c")
        )
        repeats = [
            msgspec.structs.replace(each, is_repeat=True)
            for each in first
            if isinstance(each, Published)
        ]
        assert others == [repeats, repeats]


def test_a_leader_that_is_gone_refuses_its_own_messages_only():
    with led_apart() as apart:
        apart.publish("b", "warm", partition=2)
        apart.nodes.stop("c")
        messages = [OutgoingMessage(b"x", partition=index) for index in range(3)]
        found = apart.world.run(apart.messages["b"].publish("orders", messages))
        assert [type(each) for each in found[:2]] == [Published, Published]
        assert isinstance(found[2], Uncertain), "it was asked before anybody knew"
        apart.world.run_for(0.5)
        (again,) = apart.world.run(apart.messages["b"].publish("orders", messages[2:]))
        assert isinstance(again, NodeUnreachable | NotLeader)
