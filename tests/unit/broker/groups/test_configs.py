"""Settings of groups: one place for all, and those of older logs are taken over once."""

from typing import Any

import pytest

from goqueue.broker import Broker
from goqueue.groups import UNSET, GroupSettings
from goqueue.groups.records import GroupConfigured
from goqueue.model.config import Config
from goqueue.model.ids import GroupId
from goqueue.model.machine import Decision
from goqueue.queue import QueueSettings
from goqueue.queue.records import GroupCreated
from goqueue.runtime import Environment
from goqueue.testing.sim.world import World

G, H = GroupId("g"), GroupId("h")
ALL_CHANGED = QueueSettings(
    visibility_ms=1,
    max_failures=2,
    max_timeouts=3,
    max_deliveries=4,
    backoff_base_ms=5,
    backoff_factor=1.5,
    backoff_max_ms=6,
    backoff_jitter=0.25,
    max_in_flight_consumer=7,
    max_in_flight_group=8,
    ordering="key",
    key_window=9,
    priority="strict",
    weights=(5, 4, 3, 2, 1),
    starvation_ms=10,
    fairness="tenant",
    fairness_window=11,
    ttl_ms=12,
    expired="drop",
    start="latest",
    delivery_durability="async",
    isolation="read_uncommitted",
    session_timeout_ms=7_000,
    heartbeat_interval_ms=1_000,
)
DIFFERENT = QueueSettings(max_failures=9)


def broker_of(environment: Environment) -> Any:
    return Broker(environment, Config(data_dir="/data")).running()


async def write_as_before(broker: Broker) -> None:
    """What a broker wrote that kept settings in the logs of groups and queues."""
    groups = [GroupConfigured(G, GroupSettings(60_000)), GroupConfigured(H, UNSET)]
    await broker.groups.host.submit(lambda _: Decision(groups, None))
    queues = [GroupCreated(G, DIFFERENT), GroupCreated(G, ALL_CHANGED), GroupCreated(H, DIFFERENT)]
    queues.append(GroupCreated(H, QueueSettings()))
    await broker.queues.registry.submit(lambda _: Decision(queues, None))


def test_every_setting_is_kept_and_what_is_unset_has_its_default() -> None:
    changed = {f: getattr(ALL_CHANGED, f) for f in QueueSettings.__struct_fields__}
    assert not [f for f, value in changed.items() if value == getattr(QueueSettings(), f)]

    async def set_all(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            await broker.queues.configure(G, ALL_CHANGED)
            await broker.group_configs.set_consumer_settings(G, GroupSettings(60_000, 5_000))
            await broker.queues.configure(H, DIFFERENT)
            await broker.queues.configure(H, QueueSettings(max_deliveries=3))

    async def look(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            configs = broker.group_configs
            assert configs.queue_settings(G) == ALL_CHANGED
            assert configs.queue_settings(G) is configs.queue_settings(G)
            assert configs.consumer_settings(G) == GroupSettings(60_000, 5_000)
            assert configs.queue_settings(H) == QueueSettings(max_deliveries=3)
            await configs.unset_queue_settings(G)
            assert configs.queue_settings(G) == QueueSettings()
            assert configs.consumer_settings(G) == GroupSettings(60_000, 5_000), "another family"
            await configs.set_consumer_settings(G, UNSET)
            assert list(configs.groups()) == [H]

    with World(seed=1) as world:
        world.run(set_all(world.environment("a")))
        world.run(look(world.environment("a")))


def test_a_group_whose_deliveries_were_async_is_remembered() -> None:
    async def story(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            assert not broker.group_configs.has_async_deliveries()
            await broker.queues.configure(G, QueueSettings(delivery_durability="async"))
            await broker.queues.configure(G, QueueSettings())
            assert broker.group_configs.queue_settings(G) == QueueSettings()
            assert broker.group_configs.has_async_deliveries(), "unsynced ones may be lost yet"

    with World(seed=1) as world:
        world.run(story(world.environment("a")))


@pytest.mark.parametrize("snapshot", [False, True])
def test_settings_of_older_logs_are_taken_over_once(snapshot: bool) -> None:
    async def before(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            await write_as_before(broker)
            if snapshot:
                await broker.groups.host.take_snapshot()
                await broker.queues.registry.take_snapshot()

    async def upgrade(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            configs = broker.group_configs
            assert configs.queue_settings(G) == ALL_CHANGED
            assert configs.consumer_settings(G) == GroupSettings(60_000)
            assert list(configs.groups()) == [G], "the last word of the other was the default"
            await broker.queues.configure(G, DIFFERENT)
            await configs.set_consumer_settings(G, UNSET)

    async def look(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            assert broker.group_configs.queue_settings(G) == DIFFERENT, "not taken over again"
            assert broker.group_configs.consumer_settings(G) == UNSET
            for host in broker.hosts():
                await host.take_snapshot()

    with World(seed=1) as world:
        for story in (before, upgrade, look, look):
            world.run(story(world.environment("a")))


@pytest.mark.parametrize("events", [1, 20, 40, 60, 80, 100, 150, 200, 300])
def test_a_power_cut_at_any_moment_of_the_upgrade_loses_no_settings(events: int) -> None:
    async def before(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            await write_as_before(broker)

    async def upgrade(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            for host in broker.hosts():
                await host.take_snapshot()

    async def look(environment: Environment) -> None:
        async with broker_of(environment) as broker:
            assert broker.group_configs.queue_settings(G) == ALL_CHANGED
            assert broker.group_configs.consumer_settings(G) == GroupSettings(60_000)

    with World(seed=events) as world:
        world.run(before(world.environment("a")))
        world.start("a", upgrade)
        until = world.loop.events + events
        world.run_until(lambda: world.loop.events >= until or not world.alive("a"))
        world.power_loss("a")
        world.run(look(world.environment("a")))
