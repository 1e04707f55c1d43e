"""Group transactions on a broker that dies at any disk operation: a version is all there or not."""

import pytest

from goqueue.broker.transactions.application_transactions import GroupTransactions
from goqueue.testing.sim.world import World
from goqueue.txn.applications import Applications
from tests.sim.group_world import HOST, Engine

LIVES = 4
OPERATIONS_A_LIFE = 250


def run(seed: int | str, *, lives: int = LIVES, crashes: bool = True) -> Engine:
    """Several lives, then a last one in which everything comes to its end."""
    with World(seed) as world:
        engine = Engine(world)
        for _ in range(lives):
            if crashes:
                disk = world.disk(HOST)
                disk.crash_at(disk.operations + 1 + world.random.randrange(OPERATIONS_A_LIFE))
            world.start(HOST, engine.live)
            world.run_until(lambda: engine.done or not world.alive(HOST))
            if world.random.random() < 0.5 or not world.alive(HOST):
                world.power_loss(HOST, in_order=world.random.random() < 0.3)
            else:
                world.kill(HOST)
            if engine.done:
                break
        _finish(world, engine)
        return engine


def _finish(world: World, engine: Engine) -> None:
    engine.done = False
    world.start(HOST, engine.finish)
    world.run_until(lambda: engine.done)
    world.kill(HOST)


def test_a_version_is_visible_whole_and_once_or_not_at_all(seed):
    assert not run(seed).problems


def test_without_deaths_every_version_gets_there():
    engine = run("calm", lives=1, crashes=False)
    assert not engine.problems
    assert engine.next_version == engine.versions
    assert len(engine.seen) > 5
    assert engine.producers_left == 0, "partitions would remember every attempt for a day"


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("dies_at", range(1, OPERATIONS_A_LIFE))
def test_every_disk_operation_may_be_the_last(dies_at):
    with World("each") as world:
        engine = Engine(world, versions=3)
        world.disk(HOST).crash_at(dies_at)
        for _ in range(2):
            engine.done = False
            world.start(HOST, engine.live)
            world.run_until(lambda: engine.done or not world.alive(HOST))
            world.power_loss(HOST)
        _finish(world, engine)
        assert not engine.problems


# --- it sees what it is there for ---------------------------------------------------------------


def is_broken(seed: str) -> bool:
    try:
        return bool(run(seed).problems)
    except (AssertionError, KeyError):
        return True


def test_it_catches_a_decision_that_forgets_its_version(monkeypatch):
    monkeypatch.setattr(Applications, "apply_decision", lambda *_: None)
    assert any(is_broken(f"forgetful {seed}") for seed in range(20))


def test_it_catches_attempts_that_are_left_open(monkeypatch):
    monkeypatch.setattr(Applications, "attempts_of_older_runs", lambda *_: [])
    monkeypatch.setattr(Applications, "attempts_up_to", lambda *_: [])
    assert any(is_broken(f"untidy {seed}") for seed in range(20))


def test_it_catches_members_that_are_decided_one_by_one(monkeypatch):
    """The power goes between two of them: half a version."""

    async def one_by_one(self, application, version, run, members):
        for each in members[:-1]:
            await decide(self, application, version, run, [each])
            self._transactions.host.ahead.applications.known[application].version = version - 1
        return await decide(self, application, version, run, members[-1:])

    decide = GroupTransactions.decide
    monkeypatch.setattr(GroupTransactions, "decide", one_by_one)
    monkeypatch.setattr(Applications, "attempts_up_to", lambda *_: [])
    assert any(is_broken(f"single {seed}") for seed in range(20))
