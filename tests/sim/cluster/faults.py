"""What goes wrong in a simulated cluster, drawn from its seed: one source for all of them.

    run_while(holds)   a fault, a pause, mostly all of it mended; a quarter of the time nothing
    mend               whatever was broken is whole again, and every node runs

Two rules keep a story within what is promised.  A disk is lost, or exchanged for an older copy,
only while every replica is in sync, and nothing else is broken until that is so again: acknowledged
means "on two disks".  And the disk of the node that has the only copy of the metadata stays.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from goqueue.broker import Broker
from goqueue.broker.cluster.coordinator_topics import GROUPS_TOPIC
from goqueue.cluster import Metadata
from goqueue.cluster.features import highest_levels
from goqueue.model.errors import GoQueueError
from goqueue.model.ids import NodeId, TopicId
from goqueue.testing.sim import SimDisk
from goqueue.testing.sim.loop import LIFE
from tests.sim.cluster import damage
from tests.unit.broker.cluster.cluster_world import HOSTS, NUMBERS, ClusterWorld

CLOCK_JUMP_MS = 3_600_000
DRIFT_PPM = 100_000  # 10 %
SYNCS_S = (0.05, 0.5)  # of a slow disk
LINK_S = (0.05, 0.4)  # of a slow link
WHOLE_SECONDS = 30.0  # in which a node with another disk is in sync
FOLLOW_S = (0.1, 3.0)  # of a node that hears late what the quorum committed
ADMIN_SECONDS = 4.0
ROUNDS_MAX = 12

PROCESSES = ("kill", "lose_power", "lose_power_of_two", "pause", "restart")
NETWORK = (
    "cut",
    "cut_one_way",
    "isolate",
    "separate",
    "bridge",
    "slow_link",
    "reset",
    "flaky_network",
)
DISKS = ("slow_disk", "fail_sync", "fill_disk", "empty_disk", "old_disk", "flip_bit", "cut_file")
CLOCKS = ("jump", "drift")
OPERATORS = (
    "drain",
    "reassign",
    "grow",
    "roll",
    "prefer_leaders",
    "add_node",
    "remove_node",
    "raise_features",
)
BASIC = ("cut", "cut_one_way", "reset", "isolate", "kill", "lose_power")
ALL = (*PROCESSES, *NETWORK, *DISKS, *CLOCKS, *OPERATORS)


class Faults:
    def __init__(self, nodes: ClusterWorld, kinds: Sequence[str] = ALL) -> None:
        self.nodes = nodes
        self.world = nodes.world
        self.draw = random.Random(f"{nodes.world.seed}/faults")
        self.kinds = kinds if nodes.quorum is None else (*kinds, "cut_quorum", "delay_quorum")
        self.history: list[str] = []  # for whoever reads of a failure
        self.topics: Sequence[str] = ()  # that operators may change
        self._unanswered_drains: set[NodeId] = set()
        self._removed: set[str] = set()  # hosts of nodes that are not welcome any more
        self._copies: dict[str, tuple[str, SimDisk]] = {}  # of disks, and in which life of theirs

    # --- one after the other ----------------------------------------------------------------------

    async def run_while(self, holds: Callable[[], bool], rounds: int = ROUNDS_MAX) -> None:
        draw = self.draw
        for _ in range(rounds):
            if not holds():
                break
            await asyncio.sleep(draw.uniform(0.2, 1.5))
            if draw.random() < 0.25:
                continue
            await self.break_something()
            await asyncio.sleep(draw.uniform(0.2, 2.0))
            if draw.random() < 0.75:
                self.mend()
                await asyncio.sleep(draw.uniform(0.0, 2.0))
        self.mend()

    async def break_something(self) -> None:
        kind = self.draw.choice(self.kinds)
        await getattr(self, kind)()

    def mend(self) -> None:
        world = self.world
        world.fabric.heal()
        world.fabric.reset_probability = 0.0
        if self.nodes.quorum is not None:
            self.nodes.quorum.heal()
        for host in self.nodes.hosts:
            if world.is_paused(host):
                world.resume(host)
            disk = world.disk(host)
            disk.make_room()
            disk.slow_syncs(0.0, 0.0)
            disk.forget_faults()
            if _has_failed_logs(self.nodes.brokers.get(host)):
                self._stop(host)  # as an operator would
        self.nodes.start(*self.nodes.hosts)
        self._note("all is mended")

    def _note(self, text: str) -> None:
        self.history.append(f"{self.world.loop.time():9.4f} {text}")

    # --- hosts ------------------------------------------------------------------------------------

    @property
    def running(self) -> list[str]:
        return [host for host in self.nodes.hosts if self.world.alive(host)]

    def _some(self) -> str | None:
        running = [host for host in self.running if not self.world.is_paused(host)]
        return self.draw.choice(running) if running else None

    def _two(self) -> tuple[str, str]:
        one, other = self.draw.sample(self.nodes.hosts, 2)
        return one, other

    def _stop(self, host: str, *, power: bool = False) -> None:
        if not self.world.alive(host):
            return
        if power:
            style = self.draw.random()
            self.world.power_loss(host, in_order=style < 0.3, holes=style > 0.7)
            self.nodes.forget(host)
        else:
            self.nodes.stop(host)
        self._note(f"{host} {'loses its power' if power else 'is killed'}")

    # --- processes --------------------------------------------------------------------------------

    async def kill(self) -> None:
        host = self._some()
        if host is not None:
            self._stop(host)

    async def lose_power(self) -> None:
        host = self._some()
        if host is not None:
            self._stop(host, power=True)

    async def lose_power_of_two(self) -> None:
        for host in self._two():
            self._stop(host, power=True)

    async def restart(self) -> None:
        """It is back before anybody has noticed, perhaps."""
        host = self._some()
        if host is not None:
            self._stop(host, power=self.draw.random() < 0.5)
            await asyncio.sleep(self.draw.choice((0.0, 0.05, 0.5)))
            self.nodes.start(host)

    async def pause(self) -> None:
        host = self._some()
        if host is None:
            return
        seconds = self.draw.choice((0.1, 0.5, 1.5, 3.0, 30.0))
        self._note(f"{host} stands still for {seconds} s")
        self.world.pause(host)
        await asyncio.sleep(seconds)
        if self.world.is_paused(host):
            self.world.resume(host)

    # --- network ----------------------------------------------------------------------------------

    async def cut(self, *, one_way: bool = False) -> None:
        one, other = self._two()
        self.world.fabric.cut(one, other, one_way=one_way)
        self._note(f"cut: {one} and {other}, one way: {one_way}")

    async def cut_one_way(self) -> None:
        await self.cut(one_way=True)

    async def isolate(self) -> None:
        host = self.draw.choice(self.nodes.hosts)
        self.world.fabric.isolate(host)
        self._note(f"{host} is cut off")

    async def separate(self) -> None:
        """Clients reach it, and it reaches no other node."""
        host = self.draw.choice(self.nodes.hosts)
        for other in self.nodes.hosts:
            if other != host:
                self.world.fabric.cut(host, other)
        self._note(f"{host} is cut off from all nodes, and not from clients")

    async def bridge(self) -> None:
        """One host reaches all; the others only half of each other."""
        hosts = self.draw.sample(self.nodes.hosts, len(self.nodes.hosts))
        middle = len(hosts) // 2
        for one in hosts[:middle]:
            for other in hosts[middle + 1 :]:
                self.world.fabric.cut(one, other)
        self._note(f"{hosts[:middle]} and {hosts[middle + 1 :]} meet only {hosts[middle]}")

    async def slow_link(self) -> None:
        one, other = self._two()
        self.world.fabric.slow(one, other, LINK_S)
        self._note(f"{one} and {other} have a slow link")

    async def reset(self) -> None:
        host = self.draw.choice(self.nodes.hosts)
        self.world.fabric.reset(host)
        self._note(f"connections of {host} are reset")

    async def flaky_network(self) -> None:
        self.world.fabric.reset_probability = 0.02
        self._note("connections break")

    async def cut_quorum(self) -> None:
        assert self.nodes.quorum is not None
        for host in self.draw.sample(self.nodes.hosts, self.draw.choice((1, 1, 2))):
            self.nodes.quorum.cut(host)
            self._note(f"{host} does not reach the quorum")

    async def delay_quorum(self) -> None:
        """All but one hear late of what was committed: the next controller is one of them."""
        assert self.nodes.quorum is not None
        for host in self.draw.sample(self.nodes.hosts, len(self.nodes.hosts) - 1):
            self.nodes.quorum.delay_follow(host, self.draw.uniform(*FOLLOW_S))
            self._note(f"{host} hears late of what the quorum committed")

    # --- disks ------------------------------------------------------------------------------------

    async def slow_disk(self) -> None:
        host = self.draw.choice(self.nodes.hosts)
        self.world.disk(host).slow_syncs(*SYNCS_S)
        self._note(f"{host} has a slow disk")

    async def fail_sync(self) -> None:
        host = self.draw.choice(self.nodes.hosts)
        self.world.disk(host).fail_sync("*/logs/*.log", times=1)
        self._note(f"a sync of {host} will fail")

    async def fill_disk(self) -> None:
        host = self.draw.choice(self.nodes.hosts)
        partial = self.draw.random() < 0.5
        self.world.disk(host).fill_up(self.draw.randrange(2000), partial_writes=partial)
        self._note(f"{host} has a full disk")

    async def empty_disk(self) -> None:
        host = await self._disk_to_lose()
        if host is None:
            return
        self._stop(host)
        self.world.replace_disk(host)
        self._note(f"{host} gets an empty disk")
        await self._refill(host)

    async def old_disk(self) -> None:
        """As after a restored virtual machine; if there is no copy of it yet, one is made.

        The node has started again since the copy was made: else nothing tells the two apart.
        """
        host = await self._disk_to_lose()
        if host is None:
            return
        life = self.nodes.contexts[host][LIFE]
        assert life is not None
        made_in, copy = self._copies.get(host, ("", None))
        if copy is None or made_in == life.name:
            self._copies[host] = life.name, self.world.disk(host).crash("a copy")
            return
        del self._copies[host]
        self._stop(host)
        self.world.restore_disk(host, copy)
        self._note(f"{host} gets an older copy of its disk")
        await self._refill(host)

    async def flip_bit(self) -> None:
        """In any file of one node, while it is down."""
        await self._damage(damage.flip_bit)

    async def cut_file(self) -> None:
        """The end of a file is gone."""
        await self._damage(damage.cut_file)

    async def _damage(self, do: Callable[[SimDisk, random.Random], str]) -> None:
        """A node that does not come back from it, or not whole, gets an empty disk."""
        host = await self._disk_to_lose()
        if host is None:
            return
        self._stop(host)
        self._note(f"{host}: {do(self.world.disk(host), self.draw)}")
        self.nodes.start(host)
        if not await self._is_whole_soon():
            self._stop(host)
            self.world.replace_disk(host)
            self._note(f"{host} gets an empty disk")
            await self._refill(host)

    async def _disk_to_lose(self) -> str | None:
        host = self._some()
        if host is None or host in self._irreplaceable():
            return None
        self.mend()
        return host if await self._is_whole_soon() else None

    def _irreplaceable(self) -> set[str]:
        """Hosts whose disk has the only copy of something."""
        metadata = self.nodes.metadata
        if metadata is None:
            return set(self.nodes.hosts)
        states = [state for _, _, state in metadata.partitions]
        alone = {HOSTS[state.replicas[0]] for state in states if len(state.replicas) == 1}
        if self.nodes.quorum is None:
            alone.add("a")
        if metadata.find(GROUPS_TOPIC) is None:
            alone.add(HOSTS.get(metadata.controller.formed_by, ""))  # which coordinates groups
        return alone

    async def _refill(self, host: str) -> None:
        self.nodes.start(host)
        await self._is_whole_soon()

    async def _is_whole_soon(self) -> bool:
        for _ in range(int(WHOLE_SECONDS / 0.25)):
            if is_whole(self.nodes):
                return True
            await asyncio.sleep(0.25)
        return False

    # --- clocks -----------------------------------------------------------------------------------

    async def jump(self) -> None:
        host = self.draw.choice(self.nodes.hosts)
        by = self.draw.choice((-1, 1)) * self.draw.randrange(CLOCK_JUMP_MS)
        self.world.clock(host).jump(by)
        self._note(f"the clock of {host} jumps by {by} ms")

    async def drift(self) -> None:
        host = self.draw.choice(self.nodes.hosts)
        ppm = self.draw.randrange(-DRIFT_PPM, DRIFT_PPM)
        self.world.clock(host).drift(ppm)
        self._note(f"the clock of {host} drifts by {ppm} ppm")

    # --- operators --------------------------------------------------------------------------------

    async def drain(self) -> None:
        node = NodeId(NUMBERS[self.draw.choice(self.nodes.hosts)])
        if not await self._ask("drain", lambda broker: broker.change_node(node, "drain")):
            self._unanswered_drains.add(node)
        await asyncio.sleep(self.draw.uniform(0.0, 2.0))
        for _ in range(20):
            if await self._ask("undrain", lambda broker: broker.change_node(node, "undrain")):
                return
            self.mend()
            await asyncio.sleep(0.5)

    async def undo_late_drains(self) -> None:
        """A drain that was not answered may be carried out when the network is whole again."""
        while self._unanswered_drains:
            for node in sorted(self._unanswered_drains):
                if self.nodes.metadata is not None and self.nodes.state_of(node) == "draining":
                    await self._ask("undrain", lambda broker: broker.change_node(node, "undrain"))  # noqa: B023  # asked at once
            await asyncio.sleep(1.0)

    async def reassign(self) -> None:
        place = self._some_place()
        if place is None:
            return
        metadata, name, index = place
        count = len(metadata.partition(metadata.topic(name).topic_id, index).replicas)
        hosts = self.draw.sample(self.nodes.hosts, max(count, 3))
        replicas = [NodeId(NUMBERS[host]) for host in hosts]
        await self._move(metadata.topic(name).topic_id, index, replicas)

    async def grow(self) -> None:
        place = self._some_place()
        if place is not None:
            metadata, name, _ = place
            count = metadata.topic(name).partitions + 1
            if count <= 4:
                await self._ask(
                    f"{name} grows to {count}", lambda broker: broker.add_partitions(name, count)
                )

    async def prefer_leaders(self) -> None:
        place = self._some_place()
        if place is not None:
            metadata, name, index = place
            topic_id = metadata.topic(name).topic_id
            await self._ask(
                f"{name}-{index} gets its preferred leader",
                lambda broker: broker.elect_leader(topic_id, index, "preferred"),
            )

    async def raise_features(self) -> None:
        """To what all nodes support."""
        await self._ask(
            "features are raised",
            lambda broker: broker.raise_features(highest_levels(broker.metadata)),
        )

    async def roll(self) -> None:
        """All nodes are stopped and started, one after the other."""
        for host in self.draw.sample(self.nodes.hosts, len(self.nodes.hosts)):
            if host not in self.nodes.brokers or self.world.is_paused(host):
                continue
            self._note(f"{host} is told to stop")
            self.nodes.terminate(host)
            for _ in range(40):
                if not self.world.alive(host):
                    break
                await asyncio.sleep(0.25)
            self.nodes.start(host)
            await asyncio.sleep(self.draw.uniform(0.5, 3.0))

    async def add_node(self) -> None:
        """One more, while there are numbers for it."""
        used = len(self.nodes.hosts) + len(self._removed)
        if used < len(NUMBERS):
            host = next(each for each in NUMBERS if each not in (*self.nodes.hosts, *self._removed))
            self.nodes.hosts = (*self.nodes.hosts, host)
            self._note(f"{host} is added")
            self.nodes.start(host)

    async def remove_node(self) -> None:
        """Its replicas move to others, then it goes for good; given up if something refuses."""
        self.mend()
        hosts = [host for host in self.nodes.hosts if host not in self._irreplaceable()]
        if len(self.nodes.hosts) <= 3 or not await self._is_whole_soon():
            return
        host = self.draw.choice(hosts)
        if not await self._empty(host) or not await self._is_whole_soon():
            return
        node = NodeId(NUMBERS[host])
        self.nodes.terminate(host)
        await asyncio.sleep(2.0)
        if await self._ask(f"{host} is removed", lambda broker: broker.change_node(node, "remove")):
            self._removed.add(host)
            self.nodes.hosts = tuple(each for each in self.nodes.hosts if each != host)
            if self.world.alive(host):
                self._stop(host)

    async def _empty(self, host: str) -> bool:
        metadata, node = self.nodes.metadata, NodeId(NUMBERS[host])
        for topic_id, index, state in [] if metadata is None else list(metadata.partitions):
            if node not in state.replicas:
                continue
            rest = [each for each in state.replicas if each != node]
            free = [NodeId(NUMBERS[each]) for each in self.nodes.hosts]
            spare = [each for each in free if each not in state.replicas]
            moved = [*rest, *spare[:1]]
            if not await self._move(topic_id, index, moved):
                return False
        return metadata is not None

    async def _move(self, topic_id: TopicId, index: int, replicas: list[NodeId]) -> bool:
        return await self._ask(
            f"{topic_id}-{index} moves to {replicas}",
            lambda broker: broker.reassign_partition(topic_id, index, replicas),
        )

    def _some_place(self) -> tuple[Metadata, str, int] | None:
        metadata = self.nodes.metadata
        names = [] if metadata is None else [each for each in self.topics if metadata.find(each)]
        if metadata is None or not names:
            return None
        name = self.draw.choice(names)
        return metadata, name, self.draw.randrange(metadata.topic(name).partitions)

    async def _ask(self, what: str, work: Callable[[Broker], Awaitable[object]]) -> bool:
        host = self._some()
        if host is None or host not in self.nodes.brokers:
            return False
        self._note(what)
        try:
            await self.nodes.ask(host, work, ADMIN_SECONDS)
        except (GoQueueError, TimeoutError):
            return False
        return True


def _has_failed_logs(broker: Broker | None) -> bool:
    return broker is not None and any(each.log.failed for each in broker.partitions.logs())


def is_whole(nodes: ClusterWorld) -> bool:
    """All nodes are there, and every replica of every partition is in sync."""
    metadata = nodes.metadata
    if metadata is None or len(nodes.brokers) < len(nodes.hosts):
        return False
    states = [state for _, _, state in metadata.partitions]
    is_active = all(nodes.state_of(NUMBERS[host]) == "active" for host in nodes.hosts)
    return is_active and all(
        state.leader >= 0 and set(state.isr) == set(state.replicas) and not state.adding
        for state in states
    )
