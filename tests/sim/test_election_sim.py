"""Nodes on a quorum elect their controller, whatever breaks."""

import asyncio

from goqueue.model.errors import Fenced, GoQueueError, NodeUnreachable
from tests.unit.broker.cluster.election_world import electing


def test_there_is_one_controller_again_whatever_breaks(seed: int):
    """Topics are made at all nodes; each is made once, or its maker is told that it may not be."""

    async def make(host: str) -> None:
        for number in range(8):
            node, name = nodes.nodes.get(host), f"{host}{number}"
            try:
                if node is not None:
                    await asyncio.wait_for(node.create_topic(name), 20.0)
                    done.append(name)
            except (NodeUnreachable, Fenced):
                undone.append(name)
            except (GoQueueError, TimeoutError):
                pass  # told that nobody knows
            await asyncio.sleep(world.random.uniform(0.0, 1.5))

    def break_something() -> None:
        draw, fabric = world.random, world.fabric
        one, other = draw.sample(nodes.hosts, 2)
        match draw.randrange(9):
            case 0:
                fabric.cut(one, other)
            case 1:
                fabric.cut(one, other, one_way=True)
            case 2:
                fabric.reset(one)
            case 3:
                fabric.isolate(one)
            case 4:
                nodes.kill(one)
            case 5:
                nodes.kill(one, power=True)
            case 6:
                nodes.quorum.cut(one)
            case 7:
                nodes.quorum.lose = 0.3
            case _ if world.alive(one) and not world.is_paused(one):
                world.pause(one)
            case _:
                pass

    def heal() -> None:
        for host in nodes.hosts:
            if world.is_paused(host):
                world.resume(host)
        world.fabric.heal()
        nodes.quorum.heal()
        nodes.quorum.lose = 0.0

    async def story() -> None:
        making = asyncio.gather(*(make(host) for host in nodes.hosts))
        while not making.done():
            await asyncio.sleep(world.random.uniform(0.2, 1.5))
            break_something()
            await asyncio.sleep(world.random.uniform(0.2, 3.0))
            if world.random.random() < 0.6:
                heal()
                nodes.start()
        await making

    done, undone = list[str](), list[str]()
    with electing(seed) as nodes:
        world = nodes.world
        world.run(story())
        heal()
        nodes.start()
        nodes.settle(60.0)
        there = set(nodes.nodes["a"].metadata.topics)
        assert set(done) <= there
        assert not set(undone) & there
        assert not nodes.problems
