"""Whose data directory it is: another node's, another cluster's, or an old copy is refused."""

from collections.abc import Callable

import msgspec
import pytest

from goqueue.broker.metadata import node_file
from goqueue.broker.metadata.node_file import NodeFile
from goqueue.broker.metadata.registration import check, register
from goqueue.cluster import Metadata, controller
from goqueue.model.errors import WrongDataDirectory
from goqueue.model.ids import NodeId
from goqueue.runtime import Environment
from goqueue.testing.sim import SimRandom, World, run
from goqueue.testing.sim.consensus import SimQuorum
from tests.unit.broker.brokers import CONFIG, running
from tests.unit.broker.metadata.test_consensus_journal import Node, create

NODE = NodeFile("", NodeId(1), "disk a", 1, "etcd")
replace: Callable[..., NodeFile] = msgspec.structs.replace


def test_broker_registers_with_each_start():
    async def start(environment: Environment) -> None:
        async with running(environment) as broker:
            (node,) = broker.metadata.nodes.values()
            stored = node_file.load(environment.disk, CONFIG.data_dir)
            assert stored is not None
            assert stored.cluster_id == broker.cluster_id
            assert (node.directory_id, node.incarnation) == (
                stored.directory_id,
                stored.incarnation,
            )
            assert node.epoch == node.incarnation

    with World() as world:
        for _ in range(3):
            world.run(start(world.environment("a")))
            world.power_loss("a")


def test_directory_without_its_node_file_is_the_same_cluster_again():
    """One that was restored, or that an earlier version wrote."""

    async def story(world: World) -> None:
        environment = world.environment("a")
        async with running(environment) as broker:
            cluster_id = broker.cluster_id
        environment.disk.remove(f"{CONFIG.data_dir}/{node_file.FILE}")
        async with running(environment) as broker:
            assert broker.cluster_id == cluster_id
            assert broker.metadata.nodes[NodeId(1)].epoch == 2

    with World() as world:
        world.run(story(world))


def registered(*nodes: NodeFile) -> Metadata:
    async def story() -> Metadata:
        quorum, metadata = SimQuorum(), Metadata({}, 10)
        for node in nodes:
            host = await Node(quorum.connect("a")).lead()
            check(host.ahead, node)
            await register(host, node, SimRandom(0))
            await host.submit(create(f"of {node.directory_id}"))
            metadata = host.ahead
        return metadata

    return run(story())


def test_same_disk_in_a_later_incarnation_is_welcome():
    metadata = registered(NODE)
    check(metadata, replace(NODE, incarnation=2))
    check(metadata, replace(NODE, incarnation=2, cluster_id=metadata.cluster_id))


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        (replace(NODE, directory_id="disk b"), "another data directory"),
        (NODE, "an older copy"),
        (replace(NODE, incarnation=2, cluster_id="other"), "belongs to cluster other"),
        (replace(NODE, node_id=NodeId(2), directory_id="disk b"), "has node 1 already"),
    ],
)
def test_what_the_metadata_does_not_know_is_refused(node: NodeFile, problem: str):
    with pytest.raises(WrongDataDirectory, match=problem):
        check(registered(NODE), node)


def test_another_disk_is_welcome_where_nothing_is_lost():
    check(without_topics(), replace(NODE, directory_id="disk b"))
    check(without_topics(), NODE)


def without_topics() -> Metadata:
    metadata = registered(NODE)
    for name in list(metadata.topics):
        for record in controller.delete_topic(metadata, name).records:
            metadata.apply(record)
    return metadata


def test_directory_of_a_cluster_does_not_start_on_an_empty_etcd():
    with pytest.raises(WrongDataDirectory, match="etcd has no metadata"):
        check(Metadata({}, 10), replace(NODE, cluster_id="c"))
    check(Metadata({}, 10), replace(NODE, cluster_id="c", quorum="local"))
