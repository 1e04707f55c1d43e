"""Exactly once: drivers, executors and brokers are killed at named points, and nothing shows.

The short slice runs always; `make spark-chaos` strikes everything everywhere, several times.
"""

from pathlib import Path

import pytest

from bench.kafka_connector import NotToBeHad, connector_jars
from tests.spark.crashes.scene import ROWS_A_BATCH, Blow, Scene, Victim

POINTS = ("write", "decision:before", "decision:middle", "decision:after")
SINKS = ("stream", "shuffled", "foreach_batch")
TIMES = 3
BATCHES = 8
CLUSTER = "local-cluster[2,1,512]"


def run(
    directory: Path,
    sink: str,
    *blows: Blow,
    seed: int,
    batches: int = BATCHES,
    master: str = "local[2]",
) -> None:
    with Scene(directory, sink, seed=seed, batches=batches, master=master).running() as scene:
        scene.copy(blows)
        scene.check()


def test_a_few_deaths_neither_lose_nor_double_anything(tmp_path, spark):
    blows = [Blow("broker", "decision:middle"), Blow("driver", "decision:after")]
    with Scene(tmp_path, "stream", seed=1, batches=3).running() as scene:
        scene.copy_until_killed(blows)
        scene.finish(spark)
        scene.check()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_without_memory_of_what_was_decided_there_are_duplicates(tmp_path):
    """The control: the same blow, and a writer that forgets.  So the other tests can fail."""
    with Scene(tmp_path, "forgetful", seed=1, batches=2).running() as scene:
        scene.copy([Blow("driver", "decision:after")])
        twice = scene.found() - scene.expected
        assert twice.total() == ROWS_A_BATCH
        assert not scene.expected - scene.found()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sparks_own_sink_for_kafka_writes_some_rows_twice(tmp_path):
    """What people have today; their documentation says so too."""
    try:
        jars = connector_jars()
    except NotToBeHad as error:
        pytest.skip(f"Spark's Kafka connector is not to be had: {error}")
    with Scene(tmp_path, "connector", seed=1, batches=2, jars=jars).running() as scene:
        scene.copy([Blow("driver", "write", passage=3)])
        assert (scene.found() - scene.expected).total() > 0
        assert not scene.expected - scene.found()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_a_driver_may_die_anywhere(tmp_path, sink):
    run(tmp_path, sink, *everywhere("driver"), seed=2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_a_broker_may_die_anywhere(tmp_path, sink):
    run(tmp_path, sink, *everywhere("broker"), seed=3)


def everywhere(victim: Victim) -> list[Blow]:
    return [Blow(victim, point) for _ in range(TIMES) for point in POINTS]


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_an_executor_may_die_while_it_writes(tmp_path, sink):
    blows = [Blow("executor", "write", passage=2)] * TIMES
    run(tmp_path, sink, *blows, seed=4, master=CLUSTER)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_a_driver_that_comes_back_from_the_dead_is_fenced(tmp_path, sink):
    with Scene(tmp_path, sink, seed=6, batches=4).running() as scene:
        assert scene.copy_beside_a_frozen_driver() != 0
        scene.check()
        assert "only one may write" in scene.log()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sink", SINKS)
def test_everything_may_die_in_turn(tmp_path, sink):
    blows = [
        Blow("broker", "attempt"),
        Blow("driver", "decision:middle"),
        Blow("broker", "decision:after"),
        Blow("driver", "write", passage=2),
        Blow("broker", "decision:before"),
        Blow("driver", "decision:after"),
    ]
    run(tmp_path, sink, *blows, seed=5)
