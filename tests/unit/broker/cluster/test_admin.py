"""Nodes and partitions as operators change them; from other nodes: `test_forwarding`."""

import pytest

from goqueue.broker import Broker
from goqueue.cluster.errors import NodeInUse
from goqueue.model.ids import GroupId
from tests.unit.broker.brokers import NODE, play


def test_the_node_with_the_metadata_is_not_removed():
    async def story(broker: Broker) -> None:
        with pytest.raises(NodeInUse, match="keeps the metadata"):
            await broker.change_node(NODE, "remove")

    play(story)


def test_a_drained_node_leads_again_once_it_may():
    async def story(broker: Broker) -> None:
        await broker.create_topic("t", partitions=1)
        await broker.change_node(NODE, "drain")
        assert broker.metadata.nodes.at(NODE).state == "draining"
        await broker.change_node(NODE, "undrain")
        assert broker.metadata.nodes.at(NODE).state == "active"
        (await broker.partition("t", 0)).check_leader()

    play(story)


def test_what_is_set_again_of_a_group_may_differ_from_what_is_set_first():
    async def story(broker: Broker) -> None:
        group, changes, if_set = GroupId("g"), {"a": "1"}, {"a": "2"}
        for expected in ("1", "2"):
            await broker.change_group_config(group, changes, if_set)
            shown = await broker.controller.host.read(
                lambda metadata: metadata.group_configs[group]
            )
            assert shown == {"a": expected}

    play(story)
