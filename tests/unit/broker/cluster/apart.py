"""A topic in the simulator whose three partitions are led by three nodes."""

from collections.abc import Iterator
from contextlib import contextmanager

from structlog.testing import capture_logs

from goqueue.broker import Broker
from goqueue.broker.messages.outgoing import OutgoingMessage, Published
from goqueue.broker.messages.publish import Messages
from goqueue.model.ids import NodeId
from goqueue.testing.sim import World
from tests import queue_verbs
from tests.unit.broker.cluster.cluster_world import ClusterWorld

HOSTS = ("a", "b", "c")


class Apart:
    """Partition 0 is led by host a, 1 by b, 2 by c; a coordinates the groups."""

    def __init__(self, nodes: ClusterWorld) -> None:
        self.nodes = nodes
        self.world = nodes.world
        self.messages = {host: Messages(broker) for host, broker in nodes.brokers.items()}

    def __getitem__(self, host: str) -> Broker:
        return self.nodes.brokers[host]

    def publish(self, host: str, *values: str, partition: int | None = None) -> list[Published]:
        messages = [OutgoingMessage(each.encode(), partition=partition) for each in values]
        found = self.world.run(self.messages[host].publish("orders", messages))
        assert all(isinstance(each, Published) for each in found), found
        return [each for each in found if isinstance(each, Published)]

    def receive(self, host: str, group: str = "g", **options: int) -> list[tuple[str, str]]:
        """Values and receipts."""
        found = self.world.run(
            queue_verbs.receive(self[host].queues, ["orders"], group, "c", **options)
        )
        return [((each.record.value or b"").decode(), each.receipt) for each in found]


@contextmanager
def led_apart(seed: int = 0) -> Iterator[Apart]:
    with capture_logs(), World(seed) as world:
        nodes = ClusterWorld(world)
        nodes.start(*HOSTS)
        world.run_until(lambda: len(nodes.brokers) == len(HOSTS), limit_s=30)
        world.run_until(lambda: {nodes.state_of(each) for each in (1, 2, 3)} == {"active"})
        replicas = [[NodeId(1)], [NodeId(2)], [NodeId(3)]]
        world.run(nodes.controller.create_topic("orders", partitions=3, assignments=replicas))
        world.run_until(lambda: all(each == ["orders"] for each in nodes.topics_seen.values()))
        world.run_until(lambda: coordinators_are_copied(nodes), limit_s=30)
        yield Apart(nodes)


def coordinators_are_copied(nodes: ClusterWorld) -> bool:
    """Their topics get replicas when nodes have joined; the first node leads them again then."""
    metadata, groups = nodes.controller.metadata, nodes.controller.groups
    found = metadata.find("__groups")
    if found is None or not groups.is_coordinating:
        return False
    return len(metadata.partition(found.topic_id, 0).isr) == len(HOSTS)
