"""A broker whose metadata is in a quorum: fenced, uncertain, and far behind."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from goqueue.broker import Broker, MachineHost
from goqueue.broker.metadata.consensus_journal import ConsensusJournal
from goqueue.cluster import Metadata, controller
from goqueue.cluster.consensus import ConsensusLog
from goqueue.model.errors import (
    DiskFull,
    Fenced,
    GoQueueError,
    QuorumUnavailable,
    TopicNotFound,
    Uncertain,
)
from goqueue.testing.sim import World
from goqueue.testing.sim.consensus import SimQuorum
from tests.unit.broker.brokers import CONFIG, publish, values_in
from tests.unit.broker.metadata.test_consensus_journal import create, topics


class BrokerOnQuorum(Broker):
    quorum_log: ConsensusLog

    async def open_metadata_log(self) -> ConsensusLog:
        return self.quorum_log


@contextlib.asynccontextmanager
async def running_on(world: World, name: str, quorum: SimQuorum) -> AsyncIterator[Broker]:
    broker = BrokerOnQuorum(world.environment(name), CONFIG)
    broker.quorum_log = quorum.connect(name)
    async with broker.running():
        yield broker


async def other_leader(world: World, quorum: SimQuorum) -> MachineHost[Metadata]:
    """Takes the term from whoever has it."""
    log = quorum.connect("other")
    journal = ConsensusJournal(log, await log.lead(), lambda: None)
    host = MachineHost(Metadata({}, 10), journal, world.clock("other"))
    await host.open()
    return host


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("not within a minute")


def test_fenced_broker_decides_no_more_and_follows():
    async def story(world: World) -> None:
        quorum = SimQuorum()
        async with running_on(world, "a", quorum) as broker:
            await broker.create_topic("mine")
            await publish(broker, "mine", "kept")
            other = await other_leader(world, quorum)
            with pytest.raises(Fenced):
                await broker.create_topic("too-late")
            assert not broker.controller.is_leading
            await other.submit(create("theirs"))
            await until(lambda: broker.has_topic("theirs"))
            assert not broker.has_topic("too-late")
            with pytest.raises(Fenced):
                await broker.delete_topic("mine")
            assert await values_in(await broker.partition("mine", 0)) == ["kept"]
            await publish(broker, "mine", "more")
            await other.submit(lambda metadata: controller.delete_topic(metadata, "mine"))
            await until(lambda: not broker.has_topic("mine"))
            with pytest.raises(TopicNotFound):
                await publish(broker, "mine", "gone")
            assert await topics(quorum.connect("c")) == ["theirs"]

    with World() as world:
        world.run(story(world))


def test_fenced_broker_that_is_far_behind_starts_from_a_snapshot():
    async def story(world: World) -> None:
        quorum = SimQuorum()
        async with running_on(world, "a", quorum) as broker:
            await broker.create_topic("goes")
            await broker.create_topic("stays")
            partition = await broker.partition("goes", 0)
            other = await other_leader(world, quorum)
            quorum.cut("a")
            await other.submit(lambda metadata: controller.delete_topic(metadata, "goes"))
            await other.submit(
                lambda metadata: controller.change_settings(
                    metadata, "stays", {"retention.ms": "7"}
                )
            )
            await other.submit(create("new"))
            await other.take_snapshot()
            quorum.heal()
            with pytest.raises(Fenced):
                await broker.create_topic("too-late")
            await until(lambda: broker.has_topic("new"))
            assert not broker.has_topic("goes")
            assert partition.log.abandoned
            assert broker.topic("stays").settings.retention_ms == 7

    with World() as world:
        world.run(story(world))


def test_broker_leads_again_after_an_uncertain_outcome(seed: int):
    async def story(world: World) -> None:
        quorum = SimQuorum(seed)
        async with running_on(world, "a", quorum) as broker:
            await broker.create_topic("before")
            quorum.lose = 1.0
            with pytest.raises(Uncertain):
                await broker.create_topic("unknown")
            with pytest.raises(QuorumUnavailable):
                await broker.create_topic("refused")
            assert [topic.name for topic in broker.topics()] == ["before"]
            quorum.lose = 0.0
            await until(lambda: broker.controller.is_leading)
            there = await topics(quorum.connect("b"))
            assert [topic.name for topic in broker.topics()] == there
            assert "refused" not in there
            with contextlib.suppress(GoQueueError):
                await broker.create_topic("unknown")
            await broker.create_topic("after")
            everything = ["after", "before", "unknown"]
            assert await topics(quorum.connect("b")) == everything
            assert [topic.name for topic in broker.topics()] == everything
            assert await broker.reserve_producer_id() == 0
        async with running_on(world, "a", quorum) as broker:
            assert [topic.name for topic in broker.topics()] == everything

    with World(seed) as world:
        world.run(story(world))


def test_what_was_answered_stays_while_answers_are_lost(seed: int):
    """Whatever the quorum does, no topic that was created is missing, and none that was refused
    is there."""

    async def story(world: World) -> None:
        quorum = SimQuorum(seed)
        created, refused = set[str](), set[str]()
        async with running_on(world, "a", quorum) as broker:
            quorum.lose = 0.2

            async def work(name: str) -> None:
                await asyncio.sleep(world.random.uniform(0, 60))
                try:
                    await broker.create_topic(name)
                except Uncertain:
                    return
                except GoQueueError:
                    refused.add(name)
                else:
                    created.add(name)
                    assert broker.has_topic(name)

            await asyncio.gather(*(work(f"t{number}") for number in range(30)))
            quorum.lose = 0.0
            await until(lambda: broker.controller.is_leading)
            shown = {topic.name for topic in broker.topics()}
            assert created <= shown
            assert not refused & shown
            assert shown == set(await topics(quorum.connect("b")))

    with World(seed) as world:
        world.run(story(world))


def test_broker_follows_on_when_its_groups_cannot_be_told():
    async def refuse() -> None:
        raise DiskFull("no room")

    async def story(world: World) -> None:
        quorum = SimQuorum()
        async with running_on(world, "a", quorum) as broker:
            broker.controller._on_followed = refuse
            other = await other_leader(world, quorum)
            with pytest.raises(Fenced):
                await broker.create_topic("too-late")
            for name in ("one", "two"):
                await other.submit(create(name))
                await until(partial(broker.has_topic, name))

    with World() as world:
        world.run(story(world))


def test_the_image_goes_on_while_whoever_is_told_waits():
    """Groups wait for a commit, which may need a leader that only the next image brings."""

    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async def story(world: World) -> None:
        quorum = SimQuorum()
        async with running_on(world, "a", quorum) as broker:
            broker.controller._on_followed = wait_for_ever
            other = await other_leader(world, quorum)
            with pytest.raises(Fenced):
                await broker.create_topic("too-late")
            for name in ("one", "two"):
                await other.submit(create(name))
                await until(partial(broker.has_topic, name))

    with World() as world:
        world.run(story(world))
